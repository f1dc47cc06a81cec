"""Connection mistakes: what producer, consumer, admin client and tools report, and how soon."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("cryptography")
if sys.platform != "linux":
    pytest.skip("messages of resolver and kernel differ", allow_module_level=True)

from tests.unit.client.connection_mistakes import MISTAKES, Mistake, properties, silent

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from ottla.cli.main import main
from ottla.client.core import connections
from ottla.errors import KafkaError, KafkaTimeoutError, SaslAuthenticationFailedError

TROUBLESHOOTING = Path(__file__).parents[3] / "docs" / "troubleshooting.md"
SHORT: dict[str, Any] = {
    "socket_connection_setup_timeout_ms": 900,
    "socket_connection_setup_timeout_max_ms": 900,
    "reconnect_backoff_ms": 20,
}
LIMIT_MS = 2500
"""The timeout of calls to an unreachable server."""
AT_ONCE_SECONDS = 2.4
MASKS = (
    (r"(127\.0\.0\.1|localhost):\d+", "HOST:PORT"),
    (r"within 0\.\d+ s", "within N s"),
    (r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE", "WRONG_VERSION_NUMBER"),  # depends on the version of OpenSSL
)


class Report(NamedTuple):
    """What a client reported, and after how many seconds."""

    error: KafkaError
    seconds: float

    @property
    def text(self) -> str:
        """The cause, without the name of the failed call, ports and times."""
        text = str(self.error)
        if isinstance(self.error, KafkaTimeoutError):
            text = text[text.index("(") + 1 : -1]
        for pattern, mask in MASKS:
            text = re.sub(pattern, mask, text)
        return text


def produce(servers: str, configs: dict[str, Any]) -> None:
    with KafkaProducer(bootstrap_servers=servers, max_block_ms=LIMIT_MS, **SHORT, **configs) as producer:
        producer.send("t", b"1").get(5)


def consume(servers: str, configs: dict[str, Any]) -> None:
    with KafkaConsumer(bootstrap_servers=servers, default_api_timeout_ms=LIMIT_MS, **SHORT, **configs) as consumer:
        consumer.partitions_for_topic("t")


def administer(servers: str, configs: dict[str, Any]) -> None:
    limits: dict[str, Any] = {"default_api_timeout_ms": LIMIT_MS, "request_timeout_ms": LIMIT_MS}
    with KafkaAdminClient(bootstrap_servers=servers, **limits, **SHORT, **configs) as admin:
        admin.list_topics()


CLIENTS: dict[str, Callable[[str, dict[str, Any]], None]] = {
    "producer": produce,
    "consumer": consume,
    "admin": administer,
}


def report(mistake: Mistake, client: str) -> Report:
    with mistake.server() as servers:
        began = time.monotonic()
        with pytest.raises(KafkaError) as raised:
            CLIENTS[client](servers, mistake.configs)
        return Report(raised.value, time.monotonic() - began)


@pytest.fixture(scope="module")
def reports() -> dict[tuple[str, str], Report]:
    """The reports by mistake and client. They are collected concurrently, as most of the time is waiting."""
    keys = [(name, client) for name in MISTAKES for client in CLIENTS]
    with ThreadPoolExecutor(16) as pool:
        return dict(zip(keys, pool.map(lambda key: report(MISTAKES[key[0]], key[1]), keys), strict=True))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_all_clients_report_the_same_cause(mistake: str, reports: dict[tuple[str, str], Report]) -> None:
    assert len({reports[mistake, client].text for client in CLIENTS}) == 1, {c: reports[mistake, c] for c in CLIENTS}


@pytest.mark.parametrize("mistake", [name for name, mistake in MISTAKES.items() if not mistake.retriable])
def test_error_that_a_retry_cannot_fix_is_raised_at_once(mistake: str, reports: dict[tuple[str, str], Report]) -> None:
    for client in CLIENTS:
        raised, seconds = reports[mistake, client]
        assert not raised.retriable
        assert not isinstance(raised, KafkaTimeoutError)
        assert seconds < AT_ONCE_SECONDS


@pytest.mark.parametrize("mistake", MISTAKES)
def test_documentation_has_the_message_of_each_mistake(mistake: str, reports: dict[tuple[str, str], Report]) -> None:
    row = f"| {mistake} | `{reports[mistake, 'admin'].text}` |"
    assert row in TROUBLESHOOTING.read_text("utf-8"), row


def test_consumer_without_a_group_raises_failed_authentication_at_once() -> None:
    mistake = MISTAKES["wrong password"]
    tp = TopicPartition("t", 0)
    calls: list[tuple[bool, Callable[[KafkaConsumer], Any]]] = [
        (True, lambda consumer: consumer.poll(10_000)),
        (False, lambda consumer: consumer.poll(10_000)),
        (False, lambda consumer: consumer.position(tp, 10_000)),
        (False, lambda consumer: consumer.end_offsets([tp], 10_000)),
    ]
    with mistake.server() as servers:
        for subscribes, call in calls:
            with KafkaConsumer(bootstrap_servers=servers, **SHORT, **mistake.configs) as consumer:
                consumer.subscribe(["t"]) if subscribes else consumer.assign([tp])
                began = time.monotonic()
                with pytest.raises(SaslAuthenticationFailedError, match="Invalid username or password"):
                    call(consumer)
                assert time.monotonic() - began < AT_ONCE_SECONDS


def test_silent_server_is_logged_before_the_timeout(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "SLOW_SECONDS", 0.1)
    with silent() as servers:
        for client in CLIENTS:
            with pytest.raises(
                KafkaTimeoutError, match=r"\(127\.0\.0\.1:\d+ (did not complete the handshake|did not answer)"
            ):
                CLIENTS[client](servers, {})
    assert sum("did not complete the handshake" in message for message in caplog.messages) == len(CLIENTS)


@pytest.mark.parametrize("mistake", ["nothing listens on the port", "plaintext client, SASL listener"])
def test_transactional_producer_and_group_name_the_cause(mistake: str, reports: dict[tuple[str, str], Report]) -> None:
    cause = reports[mistake, "admin"].text.removeprefix("HOST:PORT")
    with MISTAKES[mistake].server() as servers:
        options: dict[str, Any] = {"bootstrap_servers": servers, **SHORT, **MISTAKES[mistake].configs}
        with KafkaProducer(transactional_id="tx", max_block_ms=LIMIT_MS, **options) as producer:
            with pytest.raises(KafkaTimeoutError, match=re.escape(cause)):
                producer.init_transactions()
        with KafkaConsumer(group_id="g", default_api_timeout_ms=LIMIT_MS, **options) as consumer:
            with pytest.raises(KafkaTimeoutError, match=re.escape(cause)):
                consumer.committed(TopicPartition("t", 0))


def test_failed_authentication_is_logged_with_the_user_at_a_limited_rate(caplog: pytest.LogCaptureFixture) -> None:
    mistake = MISTAKES["wrong password"]
    with mistake.server() as servers:
        for _ in range(8):
            with pytest.raises(KafkaError):
                administer(servers, mistake.configs)
    lines = [message for message in caplog.messages if message.startswith("Authentication of 127.0.0.1:")]
    assert len(lines) == 5
    assert re.search(r"Invalid username or password \(user=ann sasl\.mechanism=PLAIN client_id=\S+\)$", lines[0])


def test_tool_prints_the_cause_in_one_line_and_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mistake = MISTAKES["wrong password"]
    with mistake.server() as servers:
        file = properties(mistake.configs, tmp_path)
        assert main(["topics", "--list", "--bootstrap-server", servers, "--command-config", file]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "Invalid username or password (sasl.mechanism=PLAIN user=ann)" in line

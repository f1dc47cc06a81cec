"""The exposition formats, checked with Prometheus' own parsers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.monitoring.scraping import parsed, text
from tests.unit.broker.produce_and_fetch import create, produce

from ottla.broker.monitoring import exposition
from ottla.broker.monitoring.exposition import TextFormat, label_text, number
from ottla.broker.monitoring.metric import BrokerMetric, Kind
from ottla.broker.monitoring.metric_table import METRICS
from ottla.broker.monitoring.scrape import Scrape

NOT_OF_A_STANDALONE_BROKER = {
    "zookeeper",
    "fetcherlag",
    "quota",
    "transaction",
    "sessionexpire",
    "busy_seconds",
    "remote",  # of tiered storage
    "load_time",
    "consumergroup",
}
"""Parts of the names of metrics that need ZooKeeper, followers, quotas, groups, transactions, or the command's loop."""


@pytest.mark.parametrize("text_format", TextFormat)
def test_prometheus_parser_reads_every_metric(tmp_path: Path, text_format: TextFormat) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t", partitions=2)
        await produce(client, batch(b"a"))
        scraped = parsed(await text(client.node, text_format), text_format)
        # the parsers name counters without their suffix, as OpenMetrics does
        missing = [m.name for m in METRICS if m.name.removesuffix("_total") not in scraped.families]
        assert [name for name in missing if not any(part in name for part in NOT_OF_A_STANDALONE_BROKER)] == [
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
            "kafka_network_socketserver_networkprocessoravgidle_percent",
        ]
        wrong = [
            (m.name, scraped.families[m.name.removesuffix("_total")].type)
            for m in METRICS
            if m.name not in missing
            and scraped.families[m.name.removesuffix("_total")].type
            != {Kind.SIZES: "summary", Kind.COUNT: "unknown"}.get(m.kind, m.kind.value)
        ]
        assert wrong == []

    with_broker(test, tmp_path)


def test_open_metrics_text_ends_with_eof(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        assert (await text(client.node, TextFormat.OPEN_METRICS)).endswith("\n# EOF\n")
        assert "# EOF" not in await text(client.node)

    with_broker(test, tmp_path)


@pytest.mark.parametrize(
    ("accept", "text_format"),
    [
        (
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            TextFormat.OPEN_METRICS,
        ),
        (
            "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
            "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            TextFormat.OPEN_METRICS,
        ),
        ("text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0;q=0.4", TextFormat.PROMETHEUS),
        ("*/*, application/openmetrics-text;q=0.5", TextFormat.PROMETHEUS),
        ("application/openmetrics-text; q=0", TextFormat.PROMETHEUS),
        ("application/openmetrics-text;q=much, text/plain", TextFormat.PROMETHEUS),
        ("text/plain;version=0.0.4", TextFormat.PROMETHEUS),
        ("*/*", TextFormat.PROMETHEUS),
        ("", TextFormat.PROMETHEUS),
    ],
)
def test_text_format_follows_the_accept_header(accept: str, text_format: TextFormat) -> None:
    assert TextFormat.accepted(accept) is text_format


def test_labels_are_escaped() -> None:
    assert label_text(("logDirectory",), ('C:\\a"b\n',)) == 'logDirectory="C:\\\\a\\"b\\n"'
    assert label_text(("topic", "partition"), ()) == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, "3"),
        (2**60, "1152921504606846976"),
        (0.25, "0.25"),
        (float("nan"), "NaN"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
    ],
)
def test_numbers_are_formatted_for_prometheus(value: float, shown: str) -> None:
    assert number(value) == shown


def test_failing_metric_does_not_remove_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(_: Scrape) -> int:
        raise ZeroDivisionError

    rows = (BrokerMetric("broken", Kind.GAUGE, (), "", failing), BrokerMetric("fine", Kind.GAUGE, (), "", lambda _: 1))
    monkeypatch.setattr(exposition, "METRICS", rows)

    async def test(client: BrokerClient) -> None:
        assert "fine 1\n" in await text(client.node)

    with_broker(test, tmp_path)
    assert "broken" in caplog.text

"""Graceful shutdown of tools on signals: they commit, leave their group, send buffered records and exit as Kafka's."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla import Broker, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from ottla.cli.framework.signals import GraceExpired, Terminated, heeded_signals, stopping, terminating
from ottla.cli.main import main

TERMINATING_SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


def _accept_hangup() -> None:
    """Restore the default of SIGHUP: programs under nohup inherit that it is ignored, and these tests may run so."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@contextmanager
def started(*arguments: str, **more: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "ottla", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, preexec_fn=_accept_hangup, **more) as tool:  # type: ignore[call-overload]
        try:
            yield tool
        finally:
            tool.kill()


@pytest.mark.parametrize("number", TERMINATING_SIGNALS)
def test_console_consumer_on_signal_commits_and_leaves_its_group(
    ottla_broker: Broker, topic: str, number: signal.Signals
) -> None:
    at = ottla_broker.bootstrap_servers
    group = f"{topic}-group"
    with KafkaProducer(bootstrap_servers=at) as producer:
        for value in (b"one", b"two"):
            producer.send(topic, value, partition=1)
    arguments = ("console-consumer", "--bootstrap-server", at, "--topic", topic, "--group", group, "--from-beginning")
    with started(*arguments) as tool:
        assert tool.stdout is not None
        assert [tool.stdout.readline() for _ in range(2)] == [b"one\n", b"two\n"]
        tool.send_signal(number)
        _, error = tool.communicate(timeout=30)
        assert tool.returncode == 128 + number
        assert error == b"Processed a total of 2 messages\n"
    with KafkaAdminClient(bootstrap_servers=at) as admin:
        assert admin.list_consumer_group_offsets(group)[TopicPartition(topic, 1)].offset == 2
        described = admin.describe_consumer_groups([group])[group]
        assert (described.state, list(described.members)) == ("Empty", [])


def test_console_producer_on_sigterm_sends_buffered_records(ottla_broker: Broker, topic: str) -> None:
    at = ottla_broker.bootstrap_servers
    no_linger_timeout = ("--timeout", "60000", "--batch-size", "200")
    with started(
        "console-producer", "--bootstrap-server", at, "--topic", topic, *no_linger_timeout, stdin=subprocess.PIPE
    ) as tool:
        assert tool.stdin is not None
        # The second record does not fit into the batch, so that the first is sent and the second is buffered.
        tool.stdin.write(b"x" * 100 + b"\n" + b"y" * 50 + b"\n")
        tool.stdin.flush()
        with KafkaConsumer(topic, bootstrap_servers=at, auto_offset_reset="earliest") as consumer:
            assert next(consumer).value == b"x" * 100
            tool.send_signal(signal.SIGTERM)
            assert tool.wait(30) == 128 + signal.SIGTERM
            assert next(consumer).value == b"y" * 50


def test_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        assert heeded_signals() == [signal.SIGTERM, signal.SIGINT]
        assert main(["--version"]) == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", TERMINATING_SIGNALS)
def test_broker_on_signal_shuts_down_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    options = ("--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", f"log.dirs={tmp_path}")
    with started("broker", *options, "--override", "ottla.http.listener=") as broker:
        assert broker.stderr is not None
        assert any(b"is ready" in line for line in broker.stderr)
        broker.send_signal(number)
        assert broker.wait(30) == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_second_signal_interrupts_unless_it_is_a_copy_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    calls: list[int] = []
    with stopping(lambda: calls.append(1)) as stop:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # as `timeout` does
        assert (calls, stop.exit_code) == ([1], 128 + signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        now += 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


def test_copy_of_a_signal_does_not_interrupt_the_closing_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with terminating():
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # as `timeout` does
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGHUP)
        now += 1
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)


def test_work_that_exceeds_the_grace_period_is_interrupted() -> None:
    stopped = threading.Event()
    with pytest.raises(GraceExpired), stopping(stopped.set, 0.1):
        signal.raise_signal(signal.SIGTERM)
        assert stopped.is_set()
        try:
            time.sleep(60)
        finally:
            with pytest.raises(GraceExpired):  # closing the clients does not wait forever, either
                time.sleep(60)
    with stopping(stopped.set, 60) as stop:
        signal.raise_signal(signal.SIGTERM)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0), "the timer must be stopped"
    stop.expire(signal.SIGALRM, None)  # the timer has expired while it was stopped
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0), "SIGALRM would end the process"

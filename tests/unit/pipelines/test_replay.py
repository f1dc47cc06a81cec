"""The replay of events: sending, resuming, failures and rate."""

import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")

from ottla.errors import MessageTooLargeError
from ottla.model import TopicPartition
from ottla_pipelines.catalog import EVENTS
from ottla_pipelines.ingest.events import Numbered, event, number
from ottla_pipelines.ingest.replay import Replay


class FakeFuture:
    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def add_errback(self, call: Callable[[Exception], Any]) -> None:
        if self.error:
            call(self.error)


class FakeProducer:
    def __init__(self, error: Exception | None = None) -> None:
        self.sent: list[int] = []
        self.flushed = False
        self.error = error

    def send(self, topic: str, *, value: bytes, key: Any, partition: int, timestamp_ms: Any) -> FakeFuture:
        self.sent.append(int(value[7 : value.index(b",")]))
        return FakeFuture(self.error)

    def flush(self) -> None:
        self.flushed = True


def numbered(count: int) -> list[Numbered]:
    return list(number(event(EVENTS, f"k{n % 9}", {"row": n}, None) for n in range(count)))


def test_replay_sends_all_events_and_flushes(capsys: pytest.CaptureFixture[str]) -> None:
    producer = FakeProducer()
    work = Replay(producer, {}, rate=None)  # type: ignore[arg-type]
    work.run(iter(numbered(600)))
    assert producer.sent == list(range(600))
    assert producer.flushed
    assert (work.sent, work.seen) == (600, 600)
    assert '"sent": 600' in capsys.readouterr().out.splitlines()[-1]


def test_replay_skips_events_that_were_sent_before() -> None:
    events = numbered(100)
    last = {TopicPartition(e.topic, e.partition): e.seq for e in events[:40]}
    producer = FakeProducer()
    work = Replay(producer, last, rate=None)  # type: ignore[arg-type]
    work.run(iter(events))
    assert producer.sent == list(range(40, 100))
    assert (work.sent, work.seen) == (60, 100)


def test_failed_send_ends_the_replay() -> None:
    work = Replay(FakeProducer(MessageTooLargeError()), {}, rate=None)  # type: ignore[arg-type]
    with pytest.raises(MessageTooLargeError):
        work.run(iter(numbered(600)))
    assert work.seen < 600


def test_replay_keeps_the_configured_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    Replay(FakeProducer(), {}, rate=100.0).run(iter(numbered(1024)))  # type: ignore[arg-type]
    assert now[0] == pytest.approx(10.24)

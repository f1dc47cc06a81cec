"""The capture service reopens the capture after failures, with a backoff that progress resets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import SimpleNamespace

import pytest

pytest.importorskip("psycopg")

from ottla.cli.framework.signals import GraceExpired
from ottla.errors import KafkaTimeoutError
from ottla_pipelines.capture import service

OPTIONS = service.CaptureOptions("postgresql://host/db", "shop", ["orders"], {})


class Waits(Event):
    """Records the seconds of each wait."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        return self.is_set()


def test_capture_backoff_is_reset_by_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, stopping = iter([0, 0, 0, 0, 7, 0]), Waits()

    @contextmanager
    def opened(_: service.CaptureOptions) -> Iterator[SimpleNamespace]:
        def run(event: Event) -> None:
            try:
                capture.steps = next(steps)
            except StopIteration:
                event.set()
                return
            raise KafkaTimeoutError("no response")

        capture = SimpleNamespace(steps=0, run=run)
        yield capture

    monkeypatch.setattr(service, "opened", opened)
    service.run(OPTIONS, stopping)
    first, _, _, fourth, after_progress, second = (seconds or 0 for seconds in stopping.seconds)
    assert first < 2 < fourth
    assert after_progress < 2
    assert second < 4


def test_capture_requests_are_abandoned_after_the_grace_period(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def opened(_: service.CaptureOptions) -> None:
        raise GraceExpired

    monkeypatch.setattr(service, "opened", opened)
    with caplog.at_level(logging.WARNING, "ottla_pipelines"):
        service.run(OPTIONS, Event())
    assert "When it is started again, it continues at the committed position" in caplog.text


def test_error_after_the_stop_is_logged_without_a_retry(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stopping = Event()

    def opened(_: service.CaptureOptions) -> None:
        stopping.set()
        raise TimeoutError

    monkeypatch.setattr(service, "opened", opened)
    service.run(OPTIONS, stopping)
    assert caplog.messages == [f"Cannot capture changes for the topics {OPTIONS.name}.…: TimeoutError"]

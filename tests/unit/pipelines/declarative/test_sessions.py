"""Sessions of page visits in the template: gaps, late visits and timers."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from ottla_pipelines.declarative.sessions import Session, Sessions, Visit, process_visits

MINUTE = 60_000
GAP = 30 * MINUTE


def visit(offset: int, minute: float, page: str = "/", referrer: str | None = None) -> Visit:
    return Visit(0, offset, int(minute * MINUTE), page, referrer)


class Value:
    """A ValueState in memory."""

    def __init__(self) -> None:
        self.now: Any = None

    def exists(self) -> bool:
        return self.now is not None

    def get(self) -> Any:
        return self.now

    def update(self, new: Any) -> None:
        self.now = new

    def clear(self) -> None:
        self.now = None


class Visitor:
    """The session processor of one visitor, with state and timers in memory."""

    def __init__(self) -> None:
        self.timers: list[int] = []
        self.state = Value()
        self.processor = Sessions()
        self.processor.init(SimpleNamespace(getValueState=lambda *_: self.state, registerTimer=self.timers.append))

    def process(self, *visits: Visit) -> list[dict[str, Any]]:
        rows: Iterator[dict[str, Any]] = iter([v._asdict() for v in visits])
        return [row.asDict() for row in self.processor.handleInputRows(("ada",), rows, None)]

    def watermark(self, minute: float) -> list[dict[str, Any]]:
        now = SimpleNamespace(getCurrentWatermarkInMs=lambda: int(minute * MINUTE))
        expired = [t for t in self.timers if t <= minute * MINUTE]
        self.timers = [t for t in self.timers if t not in expired]
        self.processor._handle.registerTimer = self.timers.append
        return [row.asDict() for t in expired for row in self.processor.handleExpiredTimer(("ada",), now, t)]


def test_session_ends_after_half_an_hour_without_visits() -> None:
    ended, now = process_visits(None, [visit(0, 0, "/"), visit(1, 29.9, "/a"), visit(2, 59.9, "/b", "x")], GAP)
    assert ended == [Session(0, int(29.9 * MINUTE), 2, "/", "/a", None)]
    assert now == Session(int(59.9 * MINUTE), int(59.9 * MINUTE), 1, "/b", "/b", "x")


def test_late_visit_belongs_to_the_open_session() -> None:
    _, now = process_visits(None, [visit(0, 20, "/"), visit(1, 12, "/late", "x"), visit(2, 25, "/end", "y")], GAP)
    assert now == Session(12 * MINUTE, 25 * MINUTE, 3, "/", "/end", "x")


def test_sessions_do_not_depend_on_the_division_into_micro_batches() -> None:
    visits = [visit(i, m) for i, m in enumerate([0, 5, 40, 38, 75, 80, 120, 149])]
    whole = process_visits(None, visits, GAP)
    for cut in range(len(visits)):
        first, now = process_visits(None, visits[:cut], GAP)
        second, end = process_visits(now, visits[cut:], GAP)
        assert (first + second, end) == whole


def test_visits_of_a_micro_batch_are_processed_in_offset_order() -> None:
    visitor = Visitor()
    visitor.process(visit(2, 2, "/c"), visit(0, 0, "/a"), visit(1, 1, "/b"))
    assert Session(*visitor.state.now) == Session(0, 2 * MINUTE, 3, "/a", "/c", None)


def test_timer_ends_a_session_without_further_visits() -> None:
    visitor = Visitor()
    assert visitor.process(visit(0, 0)) == []
    assert visitor.process(visit(1, 20)) == []
    assert visitor.watermark(30) == [], "the visit at minute 20 extends it"
    assert visitor.timers == [50 * MINUTE]
    (session,) = visitor.watermark(50)
    assert (session["visitor"], session["visits"], session["ended_ms"]) == ("ada", 2, 20 * MINUTE)
    assert not visitor.state.exists()


def test_timer_of_an_ended_session_does_not_end_the_next_one() -> None:
    visitor = Visitor()
    visitor.process(visit(0, 0))
    (first,) = visitor.process(visit(1, 40))
    assert first["ended_ms"] == 0
    assert visitor.watermark(30) == []
    assert visitor.watermark(70)[0]["started_ms"] == 40 * MINUTE

"""Sessions of visitors, built from their visits in the state of `transformWithState` with timers.

A session ends when its visitor has made no request for GAP_S. Either the visitor's next visit shows that, or the
watermark passes that time and the timer fires. Both end the session at the same visit, so sessions do not depend on
the division of the stream into micro-batches, nor on kills of the job: a visitor's lines are in one partition and are
processed in the order of their offsets, and the watermark waits longer (WATERMARK) than a line can be late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GAP_S: Final = 1800
"""Time without a visit that ends a session: half an hour, as in web statistics."""
WATERMARK: Final = "2 hours"
"""Maximum delay of a line. Spark drops lines that arrive later."""


class Visit(NamedTuple):
    """One page visit of a session."""

    partition: int
    offset: int
    time_ms: int
    page: str
    referrer: str | None


class Session(NamedTuple):
    """A session so far. `referrer` is that of the first visit that has one."""

    started_ms: int
    ended_ms: int
    visits: int
    entry_page: str
    exit_page: str
    referrer: str | None


STATE: Final = (
    StructType()
    .add("started_ms", LongType())
    .add("ended_ms", LongType())
    .add("visits", IntegerType())
    .add("entry_page", StringType())
    .add("exit_page", StringType())
    .add("referrer", StringType())
)
ENDED: Final = StructType([StructField("visitor", StringType()), *STATE.fields])


def begun(visit: Visit) -> Session:
    """Return the session that a visit begins."""
    return Session(visit.time_ms, visit.time_ms, 1, visit.page, visit.page, visit.referrer)


def goes_on(session: Session, visit: Visit, gap_ms: int) -> bool:
    """Return whether the visit belongs to the session, also if it is late."""
    return visit.time_ms - session.ended_ms < gap_ms


def extended(session: Session, visit: Visit) -> Session:
    """Return the session with one more visit, in the order of arrival."""
    return Session(
        min(session.started_ms, visit.time_ms),
        max(session.ended_ms, visit.time_ms),
        session.visits + 1,
        session.entry_page,
        visit.page,
        session.referrer or visit.referrer,
    )


def taken(session: Session | None, visits: Iterable[Visit], gap_ms: int) -> tuple[list[Session], Session | None]:
    """Return the sessions that these visits of one visitor end, and the one that is open after them."""
    ended: list[Session] = []
    for visit in visits:
        if session is None:
            session = begun(visit)
        elif goes_on(session, visit, gap_ms):
            session = extended(session, visit)
        else:
            ended.append(session)
            session = begun(visit)
    return ended, session


class Sessions(StatefulProcessor):
    """Keeps each visitor's open session, and a timer for its end."""

    def __init__(self, gap_s: int = GAP_S) -> None:
        self.gap_ms = gap_s * 1000

    def init(self, handle: Any) -> None:
        """Initialize the state. Spark calls this once per task."""
        self._handle = handle
        self._open = handle.getValueState("open", STATE)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's
        """Process a visitor's visits of one micro-batch. The shuffle has mixed them, so they are sorted by offset."""
        visits = sorted(Visit(r["partition"], r["offset"], r["time_ms"], r["page"], r["referrer"]) for r in rows)
        before = Session(*self._open.get()) if self._open.exists() else None
        ended, now = taken(before, visits, self.gap_ms)
        if now is not None:
            self._open.update(tuple(now))
            if before is None or ended:
                # One timer per session: if it fires too early, because the session has continued, it is set again.
                self._handle.registerTimer(now.ended_ms + self.gap_ms)
        for session in ended:
            yield Row(visitor=key[0], **session._asdict())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Emit the session of this visitor if the watermark has passed its end."""
        if not self._open.exists():
            return
        session = Session(*self._open.get())
        end = session.ended_ms + self.gap_ms
        if end > timerValues.getCurrentWatermarkInMs():
            self._handle.registerTimer(end)
            return
        self._open.clear()
        yield Row(visitor=key[0], **session._asdict())

    def close(self) -> None:
        """Do nothing: the state holds everything."""


def sessions_of(visits: DataFrame, gap_s: int = GAP_S) -> DataFrame:
    """Return the sessions of visits (columns visitor, time, page, referrer, partition, offset).

    In a pipeline, call this outside the decorated function, on rows that come from a topic: Spark resolves the
    columns at once, when the pipeline's own tables do not exist yet. Sessions that are still open are returned by a
    later run.
    """
    timed = visits.withWatermark("time", WATERMARK).select(
        "visitor", "time", "partition", "offset", F.unix_millis("time").alias("time_ms"), "page", "referrer"
    )
    ended = timed.groupBy("visitor").transformWithState(Sessions(gap_s), ENDED, "Append", "EventTime")
    return ended.select(
        "visitor",
        F.timestamp_millis("started_ms").alias("started"),
        F.timestamp_millis("ended_ms").alias("ended"),
        "visits",
        "entry_page",
        "exit_page",
        "referrer",
    )

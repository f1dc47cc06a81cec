"""Visits of one visitor put together to sessions, as state of `transformWithState` with timers.

A session ends when its visitor has been silent for GAP_S. Two things show that: the visitor's next visit, or the
watermark passing that time, which is what the timer waits for. Both end it at the same place, so sessions do not depend
on how the stream is cut into micro-batches, nor on when the job was killed: a visitor's lines lie in one partition and
are taken in the order of their offsets, and the watermark waits longer (WATERMARK) than a line can be late.
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
"""Silence that ends a session: half an hour, as web statistics have it."""
WATERMARK: Final = "2 hours"
"""How late a line may be. What is later than that Spark would leave out."""


class Visit(NamedTuple):
    """What a session is made of."""

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
    """The session that a visit begins."""
    return Session(visit.time_ms, visit.time_ms, 1, visit.page, visit.page, visit.referrer)


def goes_on(session: Session, visit: Visit, gap_ms: int) -> bool:
    """Whether the visit belongs to the session; a late one does, too."""
    return visit.time_ms - session.ended_ms < gap_ms


def extended(session: Session, visit: Visit) -> Session:
    """The session with one more visit, in the order of arrival."""
    return Session(
        min(session.started_ms, visit.time_ms),
        max(session.ended_ms, visit.time_ms),
        session.visits + 1,
        session.entry_page,
        visit.page,
        session.referrer or visit.referrer,
    )


def taken(session: Session | None, visits: Iterable[Visit], gap_ms: int) -> tuple[list[Session], Session | None]:
    """The sessions that these visits of one visitor end, and the one that is open after them."""
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
        """Spark calls this once per task."""
        self._handle = handle
        self._open = handle.getValueState("open", STATE)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's
        """Process a visitor's visits of one micro-batch. The shuffle has mixed them; their offsets give the order."""
        visits = sorted(Visit(r["partition"], r["offset"], r["time_ms"], r["page"], r["referrer"]) for r in rows)
        before = Session(*self._open.get()) if self._open.exists() else None
        ended, now = taken(before, visits, self.gap_ms)
        if now is not None:
            self._open.update(tuple(now))
            if before is None or ended:
                # One timer per session: when it fires too early, because the session went on, it is set again.
                self._handle.registerTimer(now.ended_ms + self.gap_ms)
        for session in ended:
            yield Row(visitor=key[0], **session._asdict())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """The watermark has come to where a session of this visitor might have ended."""
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
        """Nothing is held outside the state."""


def sessions_of(visits: DataFrame, gap_s: int = GAP_S) -> DataFrame:
    """Sessions of visits (columns visitor, time, page, referrer, partition, offset).

    In a pipeline call this outside the decorated function, on rows that come from a topic: Spark looks at the columns
    at once, and a pipeline's own tables do not exist yet then. Sessions that are still open come with a later run.
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

"""Sessions of a website's visitors, computed from visits with `transformWithState` and timers.

A session ends when its visitor has made no request for GAP_S seconds. That is detected by the visitor's next visit, or
by a timer when the watermark has passed. Both end the session after the same visit, so that the sessions depend neither
on how the stream is divided into micro-batches nor on restarts. This requires that the lines of a visitor are in one
partition, and that the watermark's delay (WATERMARK) is longer than the delay of any line.
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
"""The time in seconds without a visit after which a session ends: half an hour, as is usual in web statistics."""
WATERMARK: Final = "2 hours"
"""The delay of the watermark. Spark drops lines that are later than this."""


class Visit(NamedTuple):
    """One visit. Visits are ordered by partition and offset."""

    partition: int
    offset: int
    time_ms: int
    page: str
    referrer: str | None


class Session(NamedTuple):
    """A session. `referrer` is the first one that is not empty; `visits` is the number of visits."""

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


def new_session(visit: Visit) -> Session:
    """Return a new session with one visit."""
    return Session(visit.time_ms, visit.time_ms, 1, visit.page, visit.page, visit.referrer)


def belongs_to(session: Session, visit: Visit, gap_ms: int) -> bool:
    """Return whether the visit extends the session. One that arrives late, with an earlier time, always does."""
    return visit.time_ms - session.ended_ms < gap_ms


def extended(session: Session, visit: Visit) -> Session:
    """Return the session with another visit, which becomes the exit page even if its time is earlier."""
    return Session(
        min(session.started_ms, visit.time_ms),
        max(session.ended_ms, visit.time_ms),
        session.visits + 1,
        session.entry_page,
        visit.page,
        session.referrer or visit.referrer,
    )


def process_visits(
    session: Session | None, visits: Iterable[Visit], gap_ms: int
) -> tuple[list[Session], Session | None]:
    """Process the visits of one visitor. Return the sessions that they ended, and the session that is open
    afterwards.
    """
    ended: list[Session] = []
    for visit in visits:
        if session is None:
            session = new_session(visit)
        elif belongs_to(session, visit, gap_ms):
            session = extended(session, visit)
        else:
            ended.append(session)
            session = new_session(visit)
    return ended, session


class Sessions(StatefulProcessor):
    """A stateful processor with the open session of each visitor, and a timer for its end."""

    def __init__(self, gap_s: int = GAP_S) -> None:
        self.gap_ms = gap_s * 1000

    def init(self, handle: Any) -> None:
        """Create the state. Spark calls this once per task."""
        self._handle = handle
        self._open = handle.getValueState("open", STATE)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's
        """Process the visits of one visitor in a micro-batch, and yield the sessions that ended. The visits are sorted
        by partition and offset, because the shuffle does not keep their order.
        """
        visits = sorted(Visit(r["partition"], r["offset"], r["time_ms"], r["page"], r["referrer"]) for r in rows)
        before = Session(*self._open.get()) if self._open.exists() else None
        ended, now = process_visits(before, visits, self.gap_ms)
        if now is not None:
            self._open.update(tuple(now))
            if before is None or ended:
                # One timer per session. If the session has continued when it fires, it is registered again.
                self._handle.registerTimer(now.ended_ms + self.gap_ms)
        for session in ended:
            yield Row(visitor=key[0], **session._asdict())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Yield the visitor's open session if the watermark has reached its end, otherwise register the timer again. Do
        nothing if there is no open session.
        """
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
        """Do nothing: there are no resources to release."""


def sessions_of(visits: DataFrame, gap_s: int = GAP_S) -> DataFrame:
    """Return the sessions of visits, which have the columns visitor, time, page, referrer, partition and offset.

    In a pipeline, call this outside the decorated function, with rows from a topic, because Spark resolves the columns
    immediately, before the tables of the pipeline exist. A session that is still open is returned by a later run.
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

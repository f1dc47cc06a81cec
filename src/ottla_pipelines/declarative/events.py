"""The events of a run: Spark's event messages, which are sentences, parsed into values."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final, NamedTuple

_SENTENCE: Final = re.compile(r"(?:Flow '?(?P<flow>[^\s']+)'?|(?P<run>Run)) (?:is|has) (?P<state>[A-Z_]+)\b", re.DOTALL)
_QUERY: Final = re.compile(r"\[STREAM_FAILED\] Query \[id = [^\]]*\] terminated with exception: ")
_SQL_STATE: Final = re.compile(r"\.? SQLSTATE: \w{5}")
_PYTHON_ERROR: Final = re.compile(r"^(?:ottla|pyspark|[A-Z]\w+(?:Error|Exception)\b)[\w.]*: .+", re.MULTILINE)
_DEFAULT_SCHEMA: Final = "spark_catalog.default."

STATES: Final = {
    "QUEUED": "waits for its turn or for what it reads",
    "PLANNING": "is being planned",
    "STARTING": "is being started",
    "RUNNING": "runs",
    "COMPLETED": "is done for this run",
    "FAILED": "has failed; Spark tries again, unless this was the last time",
    "STOPPED": "was stopped",
    "SKIPPED": "did not run because something before it failed",
    "EXCLUDED": "was not asked for",
    "IDLE": "has nothing to do",
    "CANCELED": "was stopped with the run",
}
"""The states of flows and runs that Spark reports, with their meanings."""


class Event(NamedTuple):
    """One event of a run."""

    time: dt.datetime
    flow: str | None
    """The flow's name; None for an event of the run itself."""
    state: str | None
    """One of STATES, or None for any other message."""
    message: str

    @property
    def headline(self) -> str:
        """The first line of the message; a whole plan may follow."""
        return first_line(self.message)

    @property
    def reason(self) -> str:
        """An error in one line, or nothing."""
        return reason_of(self.message.partition("Error: ")[2])


def event_of(time: dt.datetime, message: str) -> Event:
    """Parse an event message of Spark."""
    match = _SENTENCE.match(message)
    if match is None:
        return Event(time, None, None, message)
    flow = match["flow"]
    return Event(time, flow.rstrip(".").removeprefix(_DEFAULT_SCHEMA) if flow else None, match["state"], message)


def events_of(results: Any) -> Any:
    """Yield the events among the results that Spark Connect streams back."""
    for result in results:
        if "pipeline_event_result" in result:
            said = result["pipeline_event_result"].event
            yield event_of(said.timestamp.ToDatetime(tzinfo=dt.UTC), said.message)


def reason_of(text: str) -> str:
    """Return the essential part of an error of Spark: the exception of a Python worker, else the first line without
    ids.
    """
    raised = _PYTHON_ERROR.findall(text)
    line = raised[-1] if raised else _QUERY.sub("", first_line(text))
    return _SQL_STATE.sub("", line).strip()


def first_line(text: str) -> str:
    """Return the first line that is not blank."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def as_json(event: Event) -> dict[str, Any]:
    """Return the fields of an event for `--json`."""
    fields = {"time": event.time.isoformat(), "flow": event.flow, "state": event.state, "message": event.message}
    return {name: value for name, value in fields.items() if value is not None}

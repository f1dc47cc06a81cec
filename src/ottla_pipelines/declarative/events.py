"""Events of a run, parsed from the messages that Spark sends as English sentences."""

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
    "QUEUED": "waits for other flows or for its inputs",
    "PLANNING": "is being planned",
    "STARTING": "is being started",
    "RUNNING": "runs",
    "COMPLETED": "is complete for this run",
    "FAILED": "has failed; Spark retries it unless this was the last attempt",
    "STOPPED": "was stopped",
    "SKIPPED": "did not run, because a flow that it depends on failed",
    "EXCLUDED": "is not selected for this run",
    "IDLE": "has no new data",
    "CANCELED": "was stopped because the run was canceled",
}
"""The states of flows and runs that Spark reports, with their meanings."""


class Event(NamedTuple):
    """One event of a run."""

    time: dt.datetime
    flow: str | None
    """The flow's name; None for an event of the run itself, and if the message does not report a state."""
    state: str | None
    """The reported state, such as one of STATES; None if the message does not report one."""
    message: str

    @property
    def headline(self) -> str:
        """The first line of the message that is not blank. Messages may contain a whole query plan."""
        return first_line(self.message)

    @property
    def reason(self) -> str:
        """The error in one line; empty if there is none."""
        return reason_of(self.message.partition("Error: ")[2])


def event_of(time: dt.datetime, message: str) -> Event:
    """Return the event that a message of Spark describes."""
    match = _SENTENCE.match(message)
    if match is None:
        return Event(time, None, None, message)
    flow = match["flow"]
    return Event(time, flow.rstrip(".").removeprefix(_DEFAULT_SCHEMA) if flow else None, match["state"], message)


def events_of(results: Any) -> Any:
    """Yield the events from the results of a Spark Connect request."""
    for result in results:
        if "pipeline_event_result" in result:
            event = result["pipeline_event_result"].event
            yield event_of(event.timestamp.ToDatetime(tzinfo=dt.UTC), event.message)


def reason_of(text: str) -> str:
    """Return the essential line of a Spark error: the exception of a Python worker if there is one, otherwise the first
    line without ids.
    """
    raised = _PYTHON_ERROR.findall(text)
    line = raised[-1] if raised else _QUERY.sub("", first_line(text))
    return _SQL_STATE.sub("", line).strip()


def first_line(text: str) -> str:
    """Return the first line that is not blank; empty if there is none."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def as_json(event: Event) -> dict[str, Any]:
    """Return an event as a dictionary for `--json`, without fields that are None."""
    fields = {"time": event.time.isoformat(), "flow": event.flow, "state": event.state, "message": event.message}
    return {name: value for name, value in fields.items() if value is not None}

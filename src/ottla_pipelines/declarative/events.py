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
"""What Spark says of flows and runs, and what that means."""


class Event(NamedTuple):
    """One thing that happened."""

    time: dt.datetime
    flow: str | None
    """None: the run itself."""
    state: str | None
    """One of STATES; None for a message that is none of these."""
    message: str

    @property
    def headline(self) -> str:
        """Its first line: below may be a whole plan."""
        return first_line(self.message)

    @property
    def reason(self) -> str:
        """An error in one line, or nothing."""
        return reason_of(self.message.partition("Error: ")[2])


def event_of(time: dt.datetime, message: str) -> Event:
    """A sentence of Spark's as an event."""
    match = _SENTENCE.match(message)
    if match is None:
        return Event(time, None, None, message)
    flow = match["flow"]
    return Event(time, flow.rstrip(".").removeprefix(_DEFAULT_SCHEMA) if flow else None, match["state"], message)


def events_of(results: Any) -> Any:
    """The events among what Spark Connect streams back."""
    for result in results:
        if "pipeline_event_result" in result:
            said = result["pipeline_event_result"].event
            yield event_of(said.timestamp.ToDatetime(tzinfo=dt.UTC), said.message)


def reason_of(text: str) -> str:
    """What an error of Spark's says in the end: a Python worker's last words, else its first line without its ids."""
    raised = _PYTHON_ERROR.findall(text)
    line = raised[-1] if raised else _QUERY.sub("", first_line(text))
    return _SQL_STATE.sub("", line).strip()


def first_line(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def as_json(event: Event) -> dict[str, Any]:
    """For `--json`."""
    fields = {"time": event.time.isoformat(), "flow": event.flow, "state": event.state, "message": event.message}
    return {name: value for name, value in fields.items() if value is not None}

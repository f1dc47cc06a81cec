"""The progress of a run by flow, written to a file that `ottla console --progress-dir` shows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ottla.logs import reason_of
from ottla.spark.monitoring.progress_file import PIPELINE, ProgressFile
from ottla_pipelines.declarative.events import Event

RUNNING, FAILED = "RUNNING", "FAILED"
MAX_FLOWS: Final = 1_000


class RunProgress:
    """The last states of the run and of its flows, at most MAX_FLOWS. Thread-safe: a thread that writes the file reads
    them while the run adds events.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flows: dict[str, Event] = {}
        self._state = RUNNING
        self._message = ""

    def add(self, event: Event) -> None:
        """Update the state of the flow or run that an event describes."""
        with self._lock:
            if event.flow is not None and event.state is not None:
                if event.flow in self._flows or len(self._flows) < MAX_FLOWS:
                    self._flows[event.flow] = event
                return
            self._state = event.state or self._state
            self._message = event.reason or event.headline

    def fail(self, reason: str) -> None:
        """Set the state of the run to FAILED, with the reason."""
        with self._lock:
            self._state, self._message = FAILED, reason

    def content(self) -> dict[str, Any]:
        """Return the fields of the progress file that describe the run and its flows."""
        with self._lock:
            flows = [
                {"name": name, "state": e.state, "atMs": int(e.time.timestamp() * 1000), "reason": e.reason}
                for name, e in self._flows.items()
            ]
            return {"state": self._state, "message": self._message, "flows": flows}


@contextmanager
def recorded(directory: Path | None, project: Path) -> Iterator[RunProgress]:
    """Yield the progress of a run, which is also written to `directory` unless that is None. Raises ConfigurationError
    if the directory cannot be used.
    """
    progress = RunProgress()
    file = None if directory is None else ProgressFile(directory, PIPELINE, project.resolve().name, progress.content)
    if file is not None:
        file.start()
    try:
        yield progress
    except BaseException as error:
        progress.fail(reason_of(error))
        raise
    finally:
        if file is not None:
            file.close()

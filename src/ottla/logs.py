"""Logging filters: untrusted text must neither forge log lines nor control a terminal nor fill the disk.

Client ids, group ids, topic names and user names may contain line ends and escape sequences. A filter on each logger
of the package escapes them, whichever handler writes the record.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Final

LOGGERS: Final = (
    "ottla.authorizer",
    "ottla.broker",
    "ottla.broker.refused",
    "ottla.changes",
    "ottla.cli",
    "ottla.client",
    "ottla.cluster",
    "ottla.cluster.kazoo",
    "ottla.config",
    "ottla.controller",
    "ottla.coordinator",
    "ottla.coordinator.group",
    "ottla.http",
    "ottla.legacy",
    "ottla.metrics",
    "ottla.net",
    "ottla.records",
    "ottla.replication",
    "ottla.request",
    "ottla.spark",
    "ottla.storage",
    "ottla.storage.compaction.cleaner",
    "ottla.telemetry",
)
"""All loggers of the package."""

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_INDENT: Final = "    "


def escaped(text: str) -> str:
    """Return the text with control characters, line ends and bidirectional controls as escape sequences."""
    return text if text.isprintable() else _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class EscapeControls(logging.Filter):
    """Escapes the arguments of a message, and indents its traceback so that no line looks like a new record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record in place; never drop it."""
        if isinstance(record.args, tuple):
            record.args = tuple(map(_safe, record.args))
        if record.exc_info and not record.exc_text:
            text = logging.Formatter().formatException(record.exc_info)
            record.exc_text = "\n".join(_INDENT + escaped(line) for line in text.split("\n"))
        return True


ESCAPE: Final = EscapeControls()


def protect() -> None:
    """Add the filter to all loggers of the package. Idempotent."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(ESCAPE)


def _safe(value: object) -> object:
    """Return numbers unchanged, anything else as escaped text."""
    if value is None or isinstance(value, (int, float)):
        return value
    text = str(value)
    return value if text.isprintable() else escaped(text)


WINDOW_SECONDS: Final = 10.0
PER_WINDOW: Final = 20
"""Records with the same format string in a window; further ones are counted and mentioned by the next one."""
MAX_WINDOWS: Final = 1000


class RateLimitFilter(logging.Filter):
    """Bounds what peers can make a broker log: a client that sends garbage all day must not fill a disk with it.

    Args:
        per_window: records with the same key that are logged in `WINDOW_SECONDS`.
        key: of a record; by default its format string.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        per_window: int = PER_WINDOW,
        key: Callable[[logging.LogRecord], str] = lambda record: str(record.msg),
    ) -> None:
        super().__init__()
        self._clock = clock
        self._per_window = per_window
        self._key = key
        self._windows: dict[str, tuple[float, int]] = {}

    def reset(self) -> None:
        """Start all windows again."""
        self._windows.clear()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is logged. A record of level DEBUG always is: an operator has enabled it."""
        if record.levelno <= logging.DEBUG:
            return True
        now = self._clock()
        key = self._key(record)
        began, count = self._windows.get(key, (now, 0))
        if now - began >= WINDOW_SECONDS:
            if count > self._per_window:
                record.msg = f"{record.msg} (and {count - self._per_window} more like this were not written)"
            began, count = now, 0
        elif key not in self._windows and len(self._windows) >= MAX_WINDOWS:
            del self._windows[next(iter(self._windows))]
        self._windows[key] = (began, count + 1)
        return count < self._per_window


def message_and_host(record: logging.LogRecord) -> str:
    """Return the format string, and the host if the first argument is a peer: the key of limits for one client."""
    peer = str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
    return f"{record.msg} {peer.rpartition(':')[0]}"

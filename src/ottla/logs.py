"""Logging filters, and functions for the texts of log lines. They keep untrusted text from forging log lines,
controlling a terminal and filling the disk.

Client ids, group ids, topic names and user names may contain line breaks and escape sequences. A filter on each logger
of the package escapes them, so that this works with any handler.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from typing import Final

LOGGERS: Final = (
    "ottla.authorizer",
    "ottla.broker",
    "ottla.broker.failures",
    "ottla.broker.refused",
    "ottla.broker.tracing",
    "ottla.changes",
    "ottla.changes.offsets",
    "ottla.cli",
    "ottla.client",
    "ottla.cluster",
    "ottla.cluster.failures",
    "ottla.cluster.kazoo",
    "ottla.config",
    "ottla.controller",
    "ottla.controller.failures",
    "ottla.coordinator",
    "ottla.coordinator.group",
    "ottla.coordinator.transaction",
    "ottla.http",
    "ottla.legacy",
    "ottla.metrics",
    "ottla.mirror",
    "ottla.net",
    "ottla.records",
    "ottla.remote_log",
    "ottla.remote_log.metadata",
    "ottla.remote_log.reads",
    "ottla.replication",
    "ottla.replication.failures",
    "ottla.replication.full",
    "ottla.replication.isr",
    "ottla.request",
    "ottla.request.rejected",
    "ottla.spark",
    "ottla.storage",
    "ottla.storage.compaction.cleaner",
    "ottla.telemetry",
)
"""The names of all loggers of the package `ottla`."""

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_INDENT: Final = "    "


LISTED: Final = 20
"""Default maximum number of names that `listed` writes into a log line."""


def reason_of(error: BaseException) -> str:
    """Return the text of an error, or the name of its type if it has none, as for TimeoutError()."""
    return str(error) or type(error).__name__


def listed(names: Sequence[object], most: int = LISTED) -> str:
    """Return the first `most` names as text, with the number of those that are left out, if any."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(str(name) for name in names[:most]) + more


SHORT: Final = 200
"""Maximum length, in characters, of a text that `shortened` leaves unchanged."""


def shortened(text: str | None) -> str | None:
    """Return a text that a client chose, cut after 200 characters and followed by its length if it is longer. None is
    returned as None.
    """
    return text if text is None or len(text) <= SHORT else f"{text[:SHORT]}… ({len(text)} characters)"


def escaped(text: str) -> str:
    """Return the text with control characters, line breaks, and bidirectional embeddings, overrides and isolates
    replaced by escape sequences.
    """
    return text if text.isprintable() else _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class EscapeControls(logging.Filter):
    """Escapes the positional arguments of a log record, and escapes and indents its traceback, so that no line of
    either looks like another record.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape the record in place, and return True."""
        if isinstance(record.args, tuple):
            record.args = tuple(map(_safe, record.args))
        if record.exc_info and not record.exc_text:
            text = logging.Formatter().formatException(record.exc_info)
            record.exc_text = "\n".join(_INDENT + escaped(line) for line in text.split("\n"))
        return True


ESCAPE: Final = EscapeControls()


def protect() -> None:
    """Add the filter `ESCAPE` to all loggers of `LOGGERS`. May be called repeatedly."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(ESCAPE)


def _safe(value: object) -> object:
    """Return None and numbers unchanged, anything else as escaped text if it needs escaping."""
    if value is None or isinstance(value, (int, float)):
        return value
    text = str(value)
    return value if text.isprintable() else escaped(text)


WINDOW_SECONDS: Final = 10.0
PER_WINDOW: Final = 20
"""The default maximum number of records with the same key to log in each window."""
MAX_WINDOWS: Final = 1000


class RateLimitFilter(logging.Filter):
    """Limits the number of log records, so that a client that causes errors all day cannot fill the disk.

    Args:
        per_window: the maximum number of records with the same key to log in a window.
        key: returns the key of a record. Default: its format string.
        window_seconds: the duration of a window.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        per_window: int = PER_WINDOW,
        key: Callable[[logging.LogRecord], str] = lambda record: str(record.msg),
        window_seconds: float = WINDOW_SECONDS,
    ) -> None:
        super().__init__()
        self._clock = clock
        self._per_window = per_window
        self._key = key
        self._window_seconds = window_seconds
        self._windows: dict[str, tuple[float, int]] = {}

    def reset(self) -> None:
        """Forget all counts."""
        self._windows.clear()

    def filter(self, record: logging.LogRecord) -> bool:
        """Count the record, and return whether to log it. Records of level DEBUG are always logged, and not counted,
        because an operator has enabled them. If the previous window of the record's key has ended and records were
        dropped in it, their number is appended to the message.
        """
        if record.levelno <= logging.DEBUG:
            return True
        now = self._clock()
        key = self._key(record)
        began, count = self._windows.get(key, (now, 0))
        if now - began >= self._window_seconds:
            if count > self._per_window:
                record.msg = f"{record.msg} (and {count - self._per_window} similar records were not logged)"
            began, count = now, 0
        elif key not in self._windows and len(self._windows) >= MAX_WINDOWS:
            del self._windows[next(iter(self._windows))]
        self._windows[key] = (began, count + 1)
        return count < self._per_window


REPEATED_SECONDS: Final = 60.0
"""Minimum time in seconds between two records of an error that lasts, such as that of a full disk."""


MAX_REPEATED: Final = 200
"""Maximum number of errors with the same format string in `REPEATED_SECONDS`, such as those of a broker's many
partitions.
"""


def limit_repeated_errors(logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
    """Add filters to a logger for work that is retried until it succeeds. In each minute, they let the same message
    pass once, and at most `MAX_REPEATED` messages with the same format string. Records of level DEBUG always pass.
    """
    logger.addFilter(RateLimitFilter(clock, 1, lambda record: record.getMessage(), REPEATED_SECONDS))
    logger.addFilter(RateLimitFilter(clock, MAX_REPEATED, window_seconds=REPEATED_SECONDS))


def message_and_host(record: logging.LogRecord) -> str:
    """Return a record's format string and the host in its first argument, HOST:PORT. It is a key for RateLimitFilter,
    which then limits the records of each host.
    """
    peer = str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
    return f"{record.msg} {peer.rpartition(':')[0]}"

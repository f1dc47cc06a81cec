"""A logging filter for untrusted text: names come over the wire, and must neither forge log lines nor control a
terminal.

Client ids, group ids, topic names and user names may contain line ends and escape sequences. A filter on each logger
of the package escapes them, whichever handler writes the record.
"""

from __future__ import annotations

import logging
import re
from typing import Final

LOGGERS: Final = (
    "ottla.authorizer",
    "ottla.broker",
    "ottla.broker.refused",
    "ottla.cli",
    "ottla.client",
    "ottla.cluster",
    "ottla.cluster.kazoo",
    "ottla.config",
    "ottla.coordinator",
    "ottla.legacy",
    "ottla.metrics",
    "ottla.net",
    "ottla.pipelines",
    "ottla.records",
    "ottla.replication",
    "ottla.spark",
    "ottla.storage",
    "ottla.storage.cleaner",
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

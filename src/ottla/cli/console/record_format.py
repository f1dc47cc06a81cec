"""The format in which the console consumers print records."""

from __future__ import annotations

from typing import NamedTuple

from ottla.cli.framework.options import boolean, unescape
from ottla.client.consumer.records import ConsumerRecord
from ottla.model import LOG_APPEND_TIME


class Format(NamedTuple):
    """The parts of a record that are printed, and their separators."""

    timestamp: bool = False
    partition: bool = False
    offset: bool = False
    headers: bool = False
    key: bool = False
    value: bool = True
    separator: bytes = b"\t"
    line_end: bytes = b"\n"
    headers_separator: bytes = b","
    null: bytes = b"null"

    @classmethod
    def from_properties(cls, values: dict[str, str]) -> Format:
        """Create it from the `--property` values."""
        return cls(
            boolean(values.get("print.timestamp")),
            boolean(values.get("print.partition")),
            boolean(values.get("print.offset")),
            boolean(values.get("print.headers")),
            boolean(values.get("print.key")),
            boolean(values.get("print.value"), default=True),
            unescape(values.get("key.separator", "\t")),
            unescape(values.get("line.separator", "\n")),
            unescape(values.get("headers.separator", ",")),
            values.get("null.literal", "null").encode(),
        )

    def line(self, record: ConsumerRecord) -> bytes:
        """Return a record as it is printed."""
        parts = []
        if self.timestamp:
            kind = "LogAppendTime" if record.timestamp_type == LOG_APPEND_TIME else "CreateTime"
            parts.append(f"{kind}:{record.timestamp}".encode() if record.timestamp >= 0 else b"NO_TIMESTAMP")
        if self.partition:
            parts.append(b"Partition:%d" % record.partition)
        if self.offset:
            parts.append(b"Offset:%d" % record.offset)
        if self.headers:
            pairs = [name.encode() + b":" + self._text(value) for name, value in record.headers]
            parts.append(self.headers_separator.join(pairs) if pairs else b"NO_HEADERS")
        if self.key:
            parts.append(self._text(record.key))
        if self.value:
            parts.append(self._text(record.value))
        return self.separator.join(parts) + self.line_end

    def _text(self, data: bytes | None) -> bytes:
        return self.null if data is None else data

"""The formats in which the console consumers print records: Kafka's message formatters."""

from __future__ import annotations

import argparse
from typing import Any, Final, NamedTuple, Protocol

from ottla.cli.framework.options import Option, Repeatable, boolean, unescape
from ottla.client.serializers import Converter, find
from ottla.config import properties
from ottla.config.options import loaded
from ottla.errors import ConfigurationError
from ottla.model import LOG_APPEND_TIME
from ottla.records.consumer_record import ConsumerRecord

NO_OUTPUT: Final = "NoOpMessageFormatter"
DEFAULT: Final = "DefaultMessageFormatter"
INTERNAL: Final = (
    "OffsetsMessageFormatter",
    "GroupMetadataMessageFormatter",
    "TransactionLogMessageFormatter",
    "ShareGroupStateMessageFormatter",
)
"""Kafka's formatters for internal topics."""

OPTIONS: Final = (
    Repeatable(
        "--property, --formatter-property NAME=VALUE",
        "property of the formatter. Parts to print, true or false (by default only print.value is true): "
        "print.timestamp, print.key, print.offset, print.partition, print.epoch, print.headers, print.value, and "
        "print.delivery for share consumers. Separators: key.separator, line.separator, headers.separator. Text for "
        "null: null.literal. Deserializers: key.deserializer, value.deserializer",
    ),
    Option("--formatter-config FILE", "properties file with values for --formatter-property, which overrides them"),
    Option(
        "--formatter CLASS",
        f"class that prints records: {DEFAULT}, {NO_OUTPUT} (nothing), for internal topics {', '.join(INTERNAL)} "
        "(JSON), or the dotted name of a Python class, which is created with the properties and whose "
        "line(record) returns bytes",
    ),
    Option(
        "--key-deserializer CLASS",
        "deserializer of keys: a Kafka class, a type name such as string or long, or a Python class (default: bytes "
        "are printed unchanged)",
    ),
    Option(
        "--value-deserializer CLASS",
        "deserializer of values: a Kafka class, a type name such as string or long, or a Python class (default: bytes "
        "are printed unchanged)",
    ),
)
"""The options of both console consumers that select the format."""


class RecordFormatter(Protocol):
    """Formats records for printing. A class in `--formatter` may implement it."""

    def line(self, record: ConsumerRecord) -> bytes:
        """Return the bytes to print for a record, including the line separator; empty to print nothing."""
        ...


class NoOutput:
    """Prints nothing. Kafka's NoOpMessageFormatter."""

    def line(self, record: ConsumerRecord) -> bytes:
        """Return no bytes."""
        return b""


def formatter(args: argparse.Namespace) -> RecordFormatter:
    """Return the formatter that the options select. Raises ConfigurationError for invalid options."""
    values = dict(properties.load(args.formatter_config)) if args.formatter_config else {}
    values.update(properties.override(text) for text in args.property)
    for option in ("key_deserializer", "value_deserializer"):
        if getattr(args, option):
            values[option.replace("_", ".")] = getattr(args, option)
    name = (args.formatter or DEFAULT).rpartition(".")[2]
    if name == NO_OUTPUT:
        return NoOutput()
    if name in INTERNAL:
        from ottla.cli.console.internal_formats import FORMATS  # other topics are printed without it

        return FORMATS[name]
    if name == DEFAULT:
        return Format.from_properties(values)
    try:
        created: RecordFormatter = loaded(args.formatter)(values)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"--formatter: {args.formatter} cannot be created: {error}") from None
    return created


class Format(NamedTuple):
    """Kafka's DefaultMessageFormatter: which parts of a record are printed, and with which separators."""

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
    epoch: bool = False
    delivery: bool = False
    key_deserializer: Converter | None = None
    value_deserializer: Converter | None = None

    @classmethod
    def from_properties(cls, values: dict[str, str]) -> Format:
        """Create a format from properties such as `print.key`. Raises ConfigurationError for an unknown
        deserializer.
        """
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
            boolean(values.get("print.epoch")),
            boolean(values.get("print.delivery")),
            find(values.get("key.deserializer"), "key.deserializer", values),
            find(values.get("value.deserializer"), "value.deserializer", values),
        )

    def line(self, record: ConsumerRecord) -> bytes:
        """Return the chosen parts of a record with their separators, and the line separator."""
        parts = []
        if self.timestamp:
            kind = "LogAppendTime" if record.timestamp_type == LOG_APPEND_TIME else "CreateTime"
            parts.append(f"{kind}:{record.timestamp}".encode() if record.timestamp >= 0 else b"NO_TIMESTAMP")
        if self.partition:
            parts.append(b"Partition:%d" % record.partition)
        if self.offset:
            parts.append(b"Offset:%d" % record.offset)
        if self.delivery:
            count = getattr(record, "delivery_count", None)
            parts.append(b"Delivery:NOT_PRESENT" if count is None else b"Delivery:%d" % count)
        if self.epoch:
            # A share consumer has no positions, which the epoch would validate.
            is_known = record.leader_epoch >= 0 and not hasattr(record, "delivery_count")
            parts.append(b"Epoch:%d" % record.leader_epoch if is_known else b"Epoch:NOT_PRESENT")
        if self.headers:
            pairs = [name.encode() + b":" + self._text(value) for name, value in record.headers]
            parts.append(self.headers_separator.join(pairs) if pairs else b"NO_HEADERS")
        if self.key:
            parts.append(self._converted(self.key_deserializer, record.key, record))
        if self.value:
            parts.append(self._converted(self.value_deserializer, record.value, record))
        return self.separator.join(parts) + self.line_end

    def _converted(self, convert: Converter | None, data: bytes | None, record: ConsumerRecord) -> bytes:
        if convert is None or data is None:
            return self._text(data)
        value: Any = convert(record.topic, data, record.headers)
        return str(value).encode()

    def _text(self, data: bytes | None) -> bytes:
        return self.null if data is None else data

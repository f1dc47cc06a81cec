"""Conversion of records to text: key, value and headers as JSON, text or hex, masked and truncated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ottla.aio import ConsumerRecord
from ottla_console.cluster.schema_registry import SchemaRegistry
from ottla_console.security.masking import MASK, MaskedFields, masked_value

FORMATS: Final[dict[str, str]] = {"auto": "auto", "json": "json", "text": "text", "hex": "hex"}
DECODED: Final = ("auto", "json")
"""The formats in which keys and values are decoded with their schemas. With other formats, only values with masked
paths are.
"""
MAX_SHOWN: Final = 16 * 1024
"""The maximum number of bytes of a key, value or header value to show."""
PREVIEW: Final = 160
MAX_HEADERS: Final = 50
HEX_WIDTH: Final = 32


class ShownRecord(NamedTuple):
    """A record converted to text."""

    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str | None], ...]
    nbytes: int

    @property
    def preview(self) -> str | None:
        """The beginning of the value without line breaks; None for a tombstone."""
        return None if self.value is None else " ".join(self.value[: 4 * PREVIEW].split())[:PREVIEW]

    def contains(self, text: str) -> bool:
        """Return whether the visible key, value or headers contain a text. Masked text cannot be found. Every record
        contains the empty text.
        """
        return (
            not text
            or (self.key is not None and text in self.key)
            or (self.value is not None and text in self.value)
            or any(text in name or text in (value or "") for name, value in self.headers)
        )


async def shown_records(
    records: Sequence[ConsumerRecord], form: str, fields: MaskedFields, schemas: SchemaRegistry | None
) -> list[ShownRecord]:
    """Return records converted to a format. With a schema registry, first fetch missing schemas."""
    if schemas is not None:
        await schemas.load(data for record in records for data in (record.key, record.value))
    return [shown_record(record, form, fields, schemas) for record in records]


def shown_record(
    record: ConsumerRecord, form: str, fields: MaskedFields, schemas: SchemaRegistry | None = None
) -> ShownRecord:
    """Return a record converted to a format. Keys and values whose schemas are loaded are first decoded to JSON; with
    the formats text and hex, only values with masked paths are.
    """
    key, value = record.key, record.value
    if schemas is not None:
        # masks are paths in JSON, so the decoded value is masked
        if form in DECODED or fields.paths:
            value = schemas.to_json(value) or value
        if form in DECODED:
            key = schemas.to_json(key) or key
    return ShownRecord(
        record.partition,
        record.offset,
        record.timestamp,
        MASK if fields.has_key and key is not None else shown(key, form),
        shown(masked_value(value, fields), form),
        tuple(_headers(record.headers, fields.has_headers)),
        max(0, record.serialized_value_size),
    )


def shown(data: bytes | None, form: str) -> str | None:
    """Return the first MAX_SHOWN bytes as text, and the number of further bytes if there are any. Return None for None.
    The format `auto` chooses JSON, text or hex by the content.
    """
    if data is None:
        return None
    cut = f"\n… {len(data) - MAX_SHOWN:,} more bytes" if len(data) > MAX_SHOWN else ""
    if form in ("auto", "json") and data[:1] in (b"{", b"[") and not cut:
        try:
            text = json.dumps(json.loads(data), ensure_ascii=False, indent=2)
            # Half of a surrogate pair, which the page cannot have, stays an escape such as \ud800.
            return text.encode("utf-8", "backslashreplace").decode()
        except (ValueError, RecursionError):
            pass
    part = data[:MAX_SHOWN]
    if form != "hex":
        text = part.decode("utf-8", "replace")
        complete = text[:-1] if cut else text  # a character may be incomplete at the end of the part
        if form != "auto" or ("\ufffd" not in complete and all(c.isprintable() or c in "\n\r\t" for c in complete)):
            return text + cut
    return _hex(part) + cut


def _hex(data: bytes) -> str:
    return "\n".join(data[i : i + HEX_WIDTH].hex(" ") for i in range(0, len(data), HEX_WIDTH))


def _headers(headers: Iterable[tuple[str, bytes | None]] | None, is_masked: bool) -> Iterable[tuple[str, str | None]]:
    for name, value in list(headers or ())[:MAX_HEADERS]:
        yield name, MASK if is_masked and value is not None else shown(value, "auto")

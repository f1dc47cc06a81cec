"""The records of a topic, by partition, offset or time, and a form for producing a record.

A page reads about 5,000 records at most, and for about a second. If there are more records, it has a link that
continues there. The cursor of the link is `partition:offset,…`: the offset of each partition to continue at. If the
newest records come first, these offsets are exclusive.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from starlette.responses import Response

from ottla.aio import ConsumerRecord, KafkaConsumer
from ottla.client.admin.topics.offsets import OffsetSpec
from ottla.client.core.metadata import TopicInfo
from ottla.model import TopicPartition
from ottla_console.cluster.clients import READ_MS
from ottla_console.cluster.schema_registry import SchemaRegistry
from ottla_console.pages.record_view import FORMATS, ShownRecord, shown_records
from ottla_console.pages.topic import describe
from ottla_console.security.masking import MaskedFields
from ottla_console.web.page import BadInputError, Page
from ottla_console.web.texts import parsed_time

ORDERS: Final[dict[str, str]] = {"newest": "newest", "oldest": "oldest", "offset": "offset", "time": "time"}
ROWS: Final = 50
MAX_SCANNED: Final = 5_000
MAX_PARTITIONS: Final = 100
"""The maximum number of partitions that a page reads. For a topic with more partitions, the user can choose one."""
SCAN_SECONDS: Final = 0.9
POLL_MS: Final = 200
MAX_OFFSET: Final = 2**63 - 1
MAX_FILTER: Final = 200
Offsets = Mapping[TopicPartition, int]


class Query(NamedTuple):
    """The records to read, and their format."""

    order: str
    partitions: tuple[TopicPartition, ...]
    contains: str
    form: str
    fields: MaskedFields
    schemas: SchemaRegistry | None

    @property
    def is_backwards(self) -> bool:
        """Whether the order is newest first."""
        return self.order == "newest"


class PageOfRecords(NamedTuple):
    """The records of a page. `cursor` is None if there are no more records."""

    records: list[ShownRecord]
    scanned: int
    cursor: str | None
    is_cut: bool
    """Whether reading ended at the time limit."""


async def messages(page: Page) -> Response:
    """Return a page with records of a topic."""
    info = await describe(page)
    query = _query(page, info)
    starts, ends = await _offsets(page, query.partitions)
    result = PageOfRecords([], 0, None, is_cut=False)
    if any(ends[tp] > starts[tp] for tp in ends):
        cursor = await _cursor(page, query, starts, ends)
        async with page.console.clients.consumer() as consumer:
            scan = _scan_backwards if query.is_backwards else _scan_forwards
            result = await scan(consumer, query, starts, ends, cursor)
    page.console.collector.view_topics([info.name])
    return page.render(
        "messages.html",
        topic=info,
        result=result,
        query=query,
        formats=FORMATS,
        orders=ORDERS,
        partition=page.text("partition", "all"),
        at=page.text("at", ""),
        total=sum(ends[tp] - starts[tp] for tp in ends),
        is_first=not page.text("cursor", ""),
        is_limited=len(info.partitions) > MAX_PARTITIONS and page.text("partition", "all") == "all",
        max_partitions=MAX_PARTITIONS,
    )


def _query(page: Page, info: TopicInfo) -> Query:
    number = page.text("partition", "all")
    partitions = [TopicPartition(info.name, p.partition) for p in info.partitions if p.leader >= 0]
    if number != "all":
        index = page.integer("partition", 0, len(info.partitions) - 1)
        partitions = [tp for tp in partitions if tp.partition == index]
    contains = page.text("filter", "")
    if len(contains) > MAX_FILTER:
        raise BadInputError(f"filter: at most {MAX_FILTER} characters")
    form = page.choice("format", FORMATS, "auto")
    order = page.choice("order", ORDERS, "newest")
    masked = page.console.settings.masking.of_topic(info.name)
    return Query(order, tuple(partitions[:MAX_PARTITIONS]), contains, form, masked, page.console.schemas)


async def _offsets(page: Page, partitions: Iterable[TopicPartition]) -> tuple[Offsets, Offsets]:
    listed = [
        await page.admin.list_offsets(dict.fromkeys(partitions, spec), READ_MS, errors={})
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    ]
    starts, ends = ({tp: entry.offset for tp, entry in part.items()} for part in listed)
    return {tp: starts[tp] for tp in ends if tp in starts}, {tp: ends[tp] for tp in ends if tp in starts}


async def _cursor(page: Page, query: Query, starts: Offsets, ends: Offsets) -> Offsets:
    """Return the offset at which to begin in each partition, limited to the log."""
    text = page.text("cursor", "")
    if text:
        begin = _parsed_cursor(text, ends)
    elif query.is_backwards:
        begin = ends
    elif query.order == "offset":
        begin = dict.fromkeys(ends, page.integer("at", 0, MAX_OFFSET, 0))
    elif query.order == "time":
        try:
            moment = parsed_time(page.text("at"))
        except (ValueError, OverflowError):
            raise BadInputError("at: expected a time such as 2026-11-24T12:00 (UTC), or milliseconds") from None
        listed = await page.admin.list_offsets(
            dict.fromkeys(ends, OffsetSpec.for_timestamp(moment)), READ_MS, errors={}
        )
        begin = {tp: entry.offset if entry.offset >= 0 else ends[tp] for tp, entry in listed.items()}
    else:
        begin = starts
    return {tp: min(max(begin.get(tp, starts[tp]), starts[tp]), end) for tp, end in ends.items()}


def _parsed_cursor(text: str, ends: Offsets) -> Offsets:
    try:
        pairs = [part.split(":") for part in text.split(",")]
        by_number = {int(number): int(offset) for number, offset in pairs}
    except ValueError:
        raise BadInputError("cursor: expected PARTITION:OFFSET,…") from None
    return {tp: by_number[tp.partition] for tp in ends if tp.partition in by_number}


async def _scan_backwards(
    consumer: KafkaConsumer, query: Query, starts: Offsets, ends: Offsets, cursor: Offsets
) -> PageOfRecords:
    """Read ranges of offsets backwards from the cursor, until the page is full, the start of the log is reached, or a
    limit of records or time is reached.
    """
    deadline = time.monotonic() + SCAN_SECONDS
    upper = dict(cursor)
    matches: list[ShownRecord] = []
    scanned = 0
    window = ROWS
    is_cut = False
    while len(matches) < ROWS and scanned < MAX_SCANNED:
        active = [tp for tp in upper if upper[tp] > starts[tp]]
        if not active:
            break
        lower = {tp: max(starts[tp], upper[tp] - window) for tp in active}
        records, is_complete = await _read(consumer, lower, upper, deadline)
        if not is_complete:
            is_cut = True
            break
        scanned += len(records)
        part = await shown_records(records, query.form, query.fields, query.schemas)
        matches += (record for record in part if record.contains(query.contains))
        upper |= lower
        window = min(window * 2, MAX_SCANNED // len(active) + 1)
    matches.sort(key=_newest_first)
    for record in matches[ROWS:]:  # the next page begins with the first record that does not fit
        tp = TopicPartition(query.partitions[0].topic, record.partition)
        upper[tp] = max(upper[tp], record.offset + 1)
    return _page_of(matches, scanned, _text(upper, starts), is_cut=is_cut)


async def _scan_forwards(
    consumer: KafkaConsumer, query: Query, starts: Offsets, ends: Offsets, cursor: Offsets
) -> PageOfRecords:
    """Read forwards from the cursor, until the page is full, the end of the log is reached, or a limit of records or
    time is reached.
    """
    deadline = time.monotonic() + SCAN_SECONDS
    lower = dict(cursor)
    matches: list[ShownRecord] = []
    scanned = 0
    while len(matches) < ROWS and scanned < MAX_SCANNED:
        active = {tp: lower[tp] for tp in lower if lower[tp] < ends[tp]}
        if not active:
            break
        upper = {tp: min(ends[tp], offset + ROWS) for tp, offset in active.items()}
        records, is_complete = await _read(consumer, active, upper, deadline)
        if not is_complete:
            return _page_of(matches, scanned, _text(lower, ends), is_cut=True)
        scanned += len(records)
        part = sorted(await shown_records(records, query.form, query.fields, query.schemas), key=_oldest_first)
        matches += [record for record in part if record.contains(query.contains)]
        lower |= upper
    for record in matches[ROWS:]:
        tp = TopicPartition(query.partitions[0].topic, record.partition)
        lower[tp] = min(lower[tp], record.offset)
    return _page_of(matches, scanned, _text(lower, ends), is_cut=False)


async def _read(
    consumer: KafkaConsumer, lower: Offsets, upper: Offsets, deadline: float
) -> tuple[list[ConsumerRecord], bool]:
    """Return the records between two offsets of each partition, and whether all were read before the deadline."""
    consumer.assign(lower)
    consumer.resume(*lower)
    for tp, offset in lower.items():
        consumer.seek(tp, offset)
    remaining = set(lower)
    records: list[ConsumerRecord] = []
    while remaining:
        if time.monotonic() >= deadline:
            return records, False
        polled = await consumer.poll(POLL_MS)
        for tp, part in polled.items():
            records += (record for record in part if record.offset < upper[tp])
        for tp in list(remaining):
            # the position is checked, because the last offsets may be transaction markers or removed by compaction
            if await consumer.position(tp, READ_MS) >= upper[tp]:
                remaining.discard(tp)
                consumer.pause(tp)
    return records, True


def _page_of(matches: list[ShownRecord], scanned: int, cursor: str | None, *, is_cut: bool) -> PageOfRecords:
    return PageOfRecords(matches[:ROWS], scanned, cursor, is_cut)


def _text(offsets: Offsets, ends: Offsets) -> str | None:
    """Return the cursor for these offsets; None if all of them are at the end of the range to read."""
    if all(offset == ends[tp] for tp, offset in offsets.items()):
        return None
    return ",".join(f"{tp.partition}:{offset}" for tp, offset in sorted(offsets.items()))


def _newest_first(record: ShownRecord) -> tuple[int, int, int]:
    return -record.timestamp, -record.offset, record.partition


def _oldest_first(record: ShownRecord) -> tuple[int, int, int]:
    return record.timestamp, record.offset, record.partition


async def produce(page: Page) -> Response:
    """Produce a record, and redirect to the newest records."""
    info = await describe(page)
    number = page.integer("partition", -1, len(info.partitions) - 1, -1)
    key = page.text("key", "", strip=False)
    value = None if page.text("tombstone", "") else page.text("value", "", strip=False)
    headers = [_header(line) for line in page.text("headers", "").splitlines() if line.strip()]
    with page.audited("produce", f"topic:{info.name}"):
        producer = await page.console.clients.producer()
        metadata = await producer.send_and_wait(
            info.name,
            None if value is None else value.replace("\r\n", "\n").encode(),
            key.encode() if key else None,
            headers=headers or None,
            partition=None if number < 0 else number,
        )
    text = f"The record has offset {metadata.offset} in partition {metadata.partition}."
    return page.done(f"/topics/{info.name}/messages", text)


def _header(line: str) -> tuple[str, bytes]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise BadInputError(f"headers: {line[:60]!r} is invalid: expected a line NAME: VALUE for each header")
    return name.strip(), value.strip().encode()

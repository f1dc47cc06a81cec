"""The live tail of a topic: its newest records as server-sent events, in bounded memory.

About four times a second the browser receives the counters and at most 25 records, rendered as table rows. All records
that are read are filtered and counted, but only the newest matching ones are sent. If a tail cannot keep up, it
continues at the end of the log, and its lag is added to the number of skipped records.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from ottla.aio import ConsumerRecord, KafkaConsumer
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla_console.cluster.clients import READ_MS
from ottla_console.pages.messages import MAX_FILTER, MAX_PARTITIONS
from ottla_console.pages.record_view import FORMATS, ShownRecord, shown_record
from ottla_console.pages.topic import describe
from ottla_console.web.errors import error_page
from ottla_console.web.page import BadInputError, Page

EVENT_SECONDS: Final = 0.25
POLL_MS: Final = 100
MAX_ROWS: Final = 25
MAX_POLL_RECORDS: Final = 1_000
FILTER_SECONDS: Final = 0.005
"""The time in seconds for filtering records before other tasks in the event loop get a turn."""
MAX_SECONDS: Final = 3_600.0
"""The time in seconds after which a tail ends. The browser then opens a new one."""
LAG_SECONDS: Final = 2.0
"""The time in seconds between checks of the lag."""
MAX_LAG: Final = 100_000
"""The lag in offsets, summed over the partitions, above which a tail continues at the end of the log."""


async def page(page: Page) -> Response:
    """Return the page of the tail. JavaScript adds the records."""
    info = await describe(page)
    form, contains = page.choice("format", FORMATS, "auto"), page.text("filter", "")
    return page.render("tail.html", topic=info, form=form, formats=FORMATS, contains=contains)


async def events(page: Page) -> Response:
    """Return the stream of server-sent events."""
    info = await describe(page)
    contains, form = page.text("filter", ""), page.choice("format", FORMATS, "auto")
    if len(contains) > MAX_FILTER:
        raise BadInputError(f"filter: at most {MAX_FILTER} characters")
    partitions = [TopicPartition(info.name, p.partition) for p in info.partitions if p.leader >= 0][:MAX_PARTITIONS]
    tail = Tail(page, partitions, form, contains)
    return StreamingResponse(tail.stream(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


class Tail:
    """An open live tail."""

    def __init__(self, page: Page, partitions: list[TopicPartition], form: str, contains: str) -> None:
        self._page = page
        self._partitions = partitions
        self._form = form
        self._contains = contains
        self._schemas = page.console.schemas
        self._fields = page.console.settings.masking.of_topic(partitions[0].topic if partitions else "")
        self._newest: deque[ConsumerRecord] = deque(maxlen=MAX_ROWS)
        self._seen = self._matching = self._skipped = 0

    async def stream(self) -> AsyncIterator[str]:
        """Yield server-sent events for an hour, unless the browser disconnects before. A KafkaError ends the stream
        with the event `failure`, which has a description of the error.
        """
        options: dict[str, Any] = {"auto.offset.reset": "latest", "max.poll.records": MAX_POLL_RECORDS}
        try:
            async with self._page.console.clients.consumer(**options) as consumer:
                consumer.assign(self._partitions)
                consumer.seek_to_end()
                for tp in self._partitions:
                    await consumer.position(tp, READ_MS)
                yield self._event()
                end = time.monotonic() + MAX_SECONDS
                lag_at = time.monotonic() + LAG_SECONDS
                while time.monotonic() < end:
                    event_at = time.monotonic() + EVENT_SECONDS
                    while (now := time.monotonic()) < event_at:
                        await self._poll(consumer, min(POLL_MS, 1000 * (event_at - now)))
                    if now > lag_at:
                        await self._skip(consumer)
                        lag_at = now + LAG_SECONDS
                    yield self._event()
        except KafkaError as error:
            shown = error_page(error)
            yield f"event: failure\ndata: {json.dumps(f'{shown.title}: {shown.text}')}\n\n"

    async def _poll(self, consumer: KafkaConsumer, timeout_ms: float) -> None:
        started = time.monotonic()
        for records in (await consumer.poll(timeout_ms)).values():
            if self._schemas is not None:
                await self._schemas.load(data for record in records for data in (record.key, record.value))
            self._seen += len(records)
            if not self._contains:
                self._matching += len(records)
                self._newest.extend(records[-MAX_ROWS:])
                continue
            for record in records:
                if self._shown(record).contains(self._contains):
                    self._matching += 1
                    self._newest.append(record)
                if time.monotonic() - started > FILTER_SECONDS:
                    await asyncio.sleep(0)
                    started = time.monotonic()

    async def _skip(self, consumer: KafkaConsumer) -> None:
        ends = await consumer.end_offsets(self._partitions)
        lags = {tp: ends[tp] - await consumer.position(tp, READ_MS) for tp in self._partitions}
        if sum(lags.values()) > MAX_LAG:
            self._skipped += sum(lags.values())
            consumer.seek_to_end()

    def _event(self) -> str:
        records = [self._shown(record) for record in reversed(self._newest)]
        self._newest.clear()
        rows = self._page.console.templates.get_template("record_rows.html").render(records=records)
        data = {"seen": self._seen, "matching": self._matching, "skipped": self._skipped, "rows": rows}
        return f"data: {json.dumps(data)}\n\n"

    def _shown(self, record: ConsumerRecord) -> ShownRecord:
        return shown_record(record, self._form, self._fields, self._schemas)

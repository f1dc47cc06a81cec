"""Pages of a topic: its partitions with offsets and sizes, its configs, and changes of the topic."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from starlette.responses import Response

from ottla.aio import ConfigResource, NewPartitions
from ottla.client.admin.configs import TOPIC
from ottla.client.admin.driver import Errors
from ottla.client.admin.topics.offsets import OffsetSpec
from ottla.client.core.metadata import PartitionInfo, TopicInfo
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla_console.cluster.byte_rates import series
from ottla_console.cluster.clients import CHANGE_MS, READ_MS
from ottla_console.pages import configs
from ottla_console.pages.paging import Slice
from ottla_console.web.page import BadInputError, Page
from ottla_console.web.texts import nbytes, number

MAX_PARTITIONS: Final = 100_000


class PartitionRow(NamedTuple):
    """A partition in the list. Offsets are -1 and the size is None if they are unknown."""

    info: PartitionInfo
    start: int
    end: int
    nbytes: int | None

    @property
    def missing(self) -> list[int]:
        """The ids of the brokers whose replicas are not in the ISR."""
        return [replica for replica in self.info.replicas if replica not in self.info.isr]

    @property
    def records(self) -> int | None:
        """The number of offsets between start and end; None if it is unknown. Compaction and transactions make the
        number of records smaller.
        """
        return None if self.end < 0 or self.start < 0 else self.end - self.start


async def topic(page: Page) -> Response:
    """Return the page of a topic."""
    info = await describe(page)
    collector = page.console.collector
    collector.view_topics([info.name])
    part = Slice.for_page(page, info.partitions)
    rows, config_rows = await asyncio.gather(
        _partitions(page, part.rows), configs.config_rows(page, ConfigResource(TOPIC, info.name), READ_MS)
    )
    return page.render(
        "topic.html",
        topic=info,
        part=part,
        rows=rows,
        configs=config_rows,
        under=sum(set(p.replicas) != set(p.isr) for p in info.partitions),
        offline=sum(p.leader < 0 for p in info.partitions),
        points=collector.rates.points(info.name),
        bytes_in=collector.byte_rates.points(series("in", info.name)),
        bytes_out=collector.byte_rates.points(series("out", info.name)),
        shown_rate=lambda value: f"{number(value)}/s",
        shown_bytes=lambda value: f"{nbytes(value)}/s",
    )


async def describe(page: Page) -> TopicInfo:
    """Return the description of the topic in the URL. Raises KafkaError, for example if the topic does not exist."""
    described = await page.admin.describe_topics([page.path["topic"]], READ_MS)
    return next(iter(described.values()))


async def _partitions(page: Page, infos: Sequence[PartitionInfo]) -> list[PartitionRow]:
    partitions = [TopicPartition(p.topic, p.partition) for p in infos if p.leader >= 0]
    failed: Errors = {}

    async def offsets(spec: OffsetSpec) -> dict[TopicPartition, int]:
        listed = await page.admin.list_offsets(dict.fromkeys(partitions, spec), READ_MS, errors=failed)
        return {tp: entry.offset for tp, entry in listed.items()}

    starts, ends, sizes = await asyncio.gather(
        offsets(OffsetSpec.earliest()), offsets(OffsetSpec.latest()), _sizes(page, partitions)
    )
    rows = []
    for info in infos:
        tp = TopicPartition(info.topic, info.partition)
        rows.append(PartitionRow(info, starts.get(tp, -1), ends.get(tp, -1), sizes.get((tp, info.leader))))
    return rows


async def _sizes(page: Page, partitions: list[TopicPartition]) -> dict[tuple[TopicPartition, int], int]:
    """Return the sizes of replicas in bytes, by partition and broker id, as far as the brokers report them."""
    if not partitions:
        return {}
    try:
        described = await page.admin.describe_log_dirs(partitions, None, READ_MS, errors={})
    except KafkaError:
        return {}
    return {
        (tp, broker): replica.size
        for broker, directories in described.items()
        for directory in directories.values()
        for tp, replica in directory.replicas.items()
        if not replica.is_future
    }


async def alter_config(page: Page) -> Response:
    """Set or remove a config of the topic."""
    name = page.path["topic"]
    with page.audited("alter-configs", f"topic:{name} {page.text('name', '')}"):
        text = await configs.alter(page, ConfigResource(TOPIC, name))
    return page.done(f"/topics/{name}#configs", text)


async def add_partitions(page: Page) -> Response:
    """Increase the number of partitions."""
    name, count = page.path["topic"], page.integer("partitions", 1, MAX_PARTITIONS)
    with page.audited("create-partitions", f"topic:{name} partitions={count}"):
        await page.admin.create_partitions({name: NewPartitions(count)}, CHANGE_MS)
    return page.done(f"/topics/{name}", f"{name} has {count} partitions now.")


async def purge(page: Page) -> Response:
    """Delete all records of the topic, up to the high watermarks."""
    name = _confirmed(page)
    info = await describe(page)
    with page.audited("delete-records", f"topic:{name}"):
        partitions = {TopicPartition(name, p.partition): -1 for p in info.partitions}
        await page.admin.delete_records(partitions, CHANGE_MS)
    return page.done(f"/topics/{name}", f"The records of {name} were deleted.")


async def delete(page: Page) -> Response:
    """Delete the topic."""
    name = _confirmed(page)
    with page.audited("delete-topic", f"topic:{name}"):
        await page.admin.delete_topics([name], CHANGE_MS)
    return page.done("/topics", f"Topic {name} was deleted.")


def _confirmed(page: Page) -> str:
    """Return the name of the topic. Raises BadInputError unless the user has typed it to confirm the change."""
    name: str = page.path["topic"]
    if page.text("confirm", "") != name:
        raise BadInputError(f"confirm: type the name of the topic, {name}, to confirm")
    return name

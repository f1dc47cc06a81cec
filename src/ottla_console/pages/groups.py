"""Pages of groups: the list, lag by partition, members, reset of offsets with a preview, deletion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from ottla.client.admin.groups.group_descriptions import GroupDescription
from ottla.client.admin.topics.offsets import IsolationLevel, OffsetSpec
from ottla.errors import GroupIdNotFoundError
from ottla.model import OffsetAndMetadata, TopicPartition
from ottla_console.cluster.clients import CHANGE_MS, READ_MS
from ottla_console.cluster.collector import lag_of
from ottla_console.cluster.snapshots import REBALANCING, PartitionLag
from ottla_console.pages.paging import Slice
from ottla_console.web.page import BadInputError, Page
from ottla_console.web.texts import number, parsed_time

ORDERS: Final[dict[str, str]] = {name: name for name in ("name", "lag", "state", "rebalances")}
RESETS: Final[dict[str, str]] = {
    "earliest": "to the earliest offset",
    "latest": "to the latest offset",
    "offset": "to this offset",
    "shift": "by this number of records",
    "time": "to this time",
}
MAX_OFFSET: Final = 2**63 - 1
MAX_PREVIEW: Final = 1_000
MAX_AUDITED: Final = 10
"""The maximum number of partitions in a line of the audit log."""
DEAD: Final = "Dead"
SHARE: Final = "share"
STREAMS: Final = "streams"


class ResetRow(NamedTuple):
    """The reset of one partition. The committed offset is -1 if there is none."""

    tp: TopicPartition
    committed: int
    target: int

    @property
    def change(self) -> int:
        """The number of offsets that are skipped or, if negative, read again."""
        return self.target - max(0, self.committed)


async def listing(page: Page) -> Response:
    """Return the list of groups."""
    collector = page.console.collector
    groups = await collector.groups()
    search, order = page.text("search", ""), page.choice("order", ORDERS, "name")
    words = search.lower().split()
    rows = [row for name, row in sorted(groups.items()) if all(word in name.lower() for word in words)]
    if order == "lag":
        rows.sort(key=lambda row: -1 if row.lag is None else row.lag, reverse=True)
    elif order == "state":
        rows.sort(key=lambda row: row.state)
    elif order == "rebalances":
        rows.sort(key=lambda row: collector.rebalances.for_group(row.group_id) or 0, reverse=True)
    part = Slice.for_page(page, rows)
    collector.view_groups(row.group_id for row in part.rows)
    return page.render(
        "groups.html",
        part=part,
        search=search,
        order=order,
        total=len(groups),
        lags=collector.lags,
        rebalances=collector.rebalances if collector.metric_pages is not None else None,
    )


async def group(page: Page) -> Response:
    """Return the page of a group."""
    group_id = page.text("id")
    page.console.collector.view_groups([group_id])
    description, is_share = await _describe(page, group_id)
    owners = {tp: member for member in description.members for tp in member.assignment}
    lags = await _share_lags(page, group_id) if is_share else await _lags(page, group_id, owners)
    sums = [row.lag for row in lags if row.lag is not None]
    return page.render(
        "group.html",
        group=description,
        lags=lags,
        owners=owners,
        total=sum(sums) if sums else None,
        points=page.console.collector.lags.points(group_id),
        rebalances=page.console.collector.rebalances.for_group(group_id),
        is_share=is_share,
        is_rebalancing=description.state in REBALANCING,
        resets=RESETS,
        shown_lag=lambda value: f"{number(value)} records",
    )


async def _describe(page: Page, group_id: str) -> tuple[GroupDescription, bool]:
    """Return a group, and whether it is a share group. Raises GroupIdNotFoundError if it does not exist."""
    group_type = await _type(page, group_id)
    if group_type == SHARE:
        return (await page.admin.describe_share_groups([group_id], READ_MS))[group_id], True
    if group_type == STREAMS:
        return (await page.admin.describe_streams_groups([group_id], READ_MS))[group_id].as_group(), False
    description = (await page.admin.describe_consumer_groups([group_id], READ_MS))[group_id]
    if description.state == DEAD:
        raise GroupIdNotFoundError(f"there is no group {group_id}")
    return description, False


async def _type(page: Page, group_id: str) -> str:
    """Return the type of a group in lower case; empty if the group does not exist, or its broker does not report it."""
    row = (await page.console.collector.groups()).get(group_id)
    if row is not None:
        return row.group_type.lower()
    listed = await page.admin.list_groups(timeout_ms=READ_MS, errors={})
    return next((group.group_type.lower() for group in listed if group.group_id == group_id), "")


async def _lags(page: Page, group_id: str, assigned: Iterable[TopicPartition]) -> list[PartitionLag]:
    """Return the lag of each partition with a committed offset, and of those that are assigned to a member."""
    committed = dict.fromkeys(assigned, OffsetAndMetadata(-1))
    committed |= await page.admin.list_consumer_group_offsets(group_id, timeout_ms=READ_MS, errors={})
    rows = await lag_of(page.admin, committed, READ_MS)
    behind = [row.tp for row in rows if row.lag]
    if not behind:
        return rows
    stable = await page.admin.list_offsets(
        dict.fromkeys(behind, OffsetSpec.latest()), READ_MS, IsolationLevel.READ_COMMITTED, errors={}
    )
    return [row._replace(stable=stable[row.tp].offset) if row.tp in stable else row for row in rows]


async def _share_lags(page: Page, group_id: str) -> list[PartitionLag]:
    infos = await page.admin.describe_share_group_offsets(group_id, timeout_ms=READ_MS, errors={})
    return await lag_of(page.admin, {tp: OffsetAndMetadata(info.start_offset) for tp, info in infos.items()}, READ_MS)


async def preview(page: Page) -> Response:
    """Return a page with the offsets that a reset would set, and a form that sets exactly these."""
    group_id, topic = page.text("id"), page.text("topic", "")
    to, at = page.choice("to", {name: name for name in RESETS}), page.text("at", "")
    rows = await _plan(page, await _current(page, group_id), topic, to)
    return page.render(
        "group_reset.html",
        group_id=group_id,
        rows=rows,
        topic=topic,
        reset=RESETS[to].replace("this", at or "this"),
        back="/group?" + urlencode({"id": group_id}),
        offsets=",".join(f"{row.tp.partition}:{row.target}:{row.tp.topic}" for row in rows),
    )


async def _is_share(page: Page, group_id: str) -> bool:
    return await _type(page, group_id) == SHARE


async def _current(page: Page, group_id: str) -> Mapping[TopicPartition, int]:
    """Return the committed offsets of a group, or the start offsets of a share group."""
    if await _is_share(page, group_id):
        return await page.admin.list_share_group_offsets(group_id, timeout_ms=READ_MS, errors={})
    committed = await page.admin.list_consumer_group_offsets(group_id, timeout_ms=READ_MS, errors={})
    return {tp: entry.offset for tp, entry in committed.items()}


async def _plan(page: Page, committed: Mapping[TopicPartition, int], topic: str, to: str) -> list[ResetRow]:
    partitions = [tp for tp in committed if topic in ("", tp.topic)]
    if topic and not partitions:
        info = next(iter((await page.admin.describe_topics([topic], READ_MS)).values()))
        partitions = [TopicPartition(topic, p.partition) for p in info.partitions]
    if not partitions:
        raise BadInputError("topic: the group has no committed offsets; set a topic")
    if len(partitions) > MAX_PREVIEW:
        raise BadInputError(f"topic: {len(partitions):,} partitions are too many for one reset; set a topic")
    starts = await _positions(page, partitions, OffsetSpec.earliest())
    ends = await _positions(page, partitions, OffsetSpec.latest())
    targets = await _targets(page, to, {tp: committed.get(tp, -1) for tp in partitions}, ends)
    return [
        ResetRow(
            tp,
            committed.get(tp, -1),
            min(max(targets.get(tp, starts[tp]), starts[tp]), ends[tp]),
        )
        for tp in sorted(partitions)
        if tp in starts and tp in ends
    ]


async def _targets(
    page: Page, to: str, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int]:
    """Return the offsets to reset to, which may be outside the log. Return an empty mapping for a reset to the earliest
    offsets.
    """
    if to == "latest":
        return ends
    if to == "offset":
        return dict.fromkeys(committed, page.integer("at", 0, MAX_OFFSET))
    if to == "shift":
        shift = page.integer("at", -MAX_OFFSET, MAX_OFFSET)
        return {tp: max(0, offset) + shift for tp, offset in committed.items()}
    if to == "time":
        try:
            moment = parsed_time(page.text("at"))
        except (ValueError, OverflowError):
            raise BadInputError("at: expected a time such as 2026-11-24T12:00 (UTC), or milliseconds") from None
        positions = await _positions(page, list(committed), OffsetSpec.for_timestamp(moment))
        return {tp: offset if offset >= 0 else ends.get(tp, 0) for tp, offset in positions.items()}
    return {}


async def _positions(page: Page, partitions: list[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
    listed = await page.admin.list_offsets(dict.fromkeys(partitions, spec), READ_MS, errors={})
    return {tp: entry.offset for tp, entry in listed.items()}


async def reset(page: Page) -> Response:
    """Set the offsets of a group to those that a preview has shown."""
    group_id = page.text("id")
    try:
        parts = [part.split(":") for part in page.text("offsets").split(",")]
        offsets = {TopicPartition(topic, int(partition)): int(offset) for partition, offset, topic in parts}
    except ValueError:
        raise BadInputError("offsets: expected the offsets of a preview") from None
    first = ",".join(f"{tp}:{offset}" for tp, offset in list(offsets.items())[:MAX_AUDITED])
    resource = f"group:{group_id} partitions={len(offsets)} {first}"
    admin = page.admin
    alter = admin.alter_share_group_offsets if await _is_share(page, group_id) else admin.alter_consumer_group_offsets
    with page.audited("reset-offsets", resource):
        await alter(group_id, offsets, CHANGE_MS)
    return page.done("/group?" + urlencode({"id": group_id}), f"{len(offsets)} offsets were reset.")


async def delete(page: Page) -> Response:
    """Delete a group. It must not have members."""
    group_id = page.text("id")
    if page.text("confirm", "") != group_id:
        raise BadInputError(f"confirm: type the id of the group, {group_id}, to confirm")
    admin = page.admin
    delete_groups = admin.delete_share_groups if await _is_share(page, group_id) else admin.delete_consumer_groups
    with page.audited("delete-group", f"group:{group_id}"):
        await delete_groups([group_id], CHANGE_MS)
    return page.done("/groups", f"Group {group_id} was deleted.")

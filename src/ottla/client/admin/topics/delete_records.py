"""Deletion of records before an offset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.admin.driver import AdminCall, AdminDriver, Errors, by_topic, partition_results, to_leaders
from ottla.errors import UnknownTopicOrPartitionError
from ottla.model import TopicPartition
from ottla.protocol.messages import delete_records as records_api


class RecordsToDelete(NamedTuple):
    """Selects the records before `before_offset`; -1 selects those before the high watermark."""

    before_offset: int

    @classmethod
    def before(cls, offset: int) -> RecordsToDelete:
        """Select the records before an offset. Java's `RecordsToDelete.beforeOffset`."""
        return cls(offset)


class RecordsAdmin(AdminDriver):
    """Admin calls for records."""

    async def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, RecordsToDelete | int],
        timeout_ms: float | None = None,
        *,
        partition_leader_id: int | None = None,
        errors: Errors | None = None,
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset (-1: before the high watermark), and return the low watermark of each
        partition, the lowest log start offset of its live replicas.

        Leaders are looked up; kafka-python's `partition_leader_id` is ignored.
        """
        offsets = {
            TopicPartition(*tp): target.before_offset if isinstance(target, RecordsToDelete) else target
            for tp, target in records_to_delete.items()
        }

        def request(remaining: list[TopicPartition]) -> records_api.DeleteRecordsRequest:
            topics = by_topic(
                {
                    tp: records_api.DeleteRecordsPartition(partition_index=tp.partition, offset=offsets[tp])
                    for tp in remaining
                }
            )
            return records_api.DeleteRecordsRequest(
                topics=[records_api.DeleteRecordsTopic(name=name, partitions=parts) for name, parts in topics.items()],
                timeout_ms=self.milliseconds(timeout_ms),
            )

        call: AdminCall[TopicPartition, int] = AdminCall(
            request,
            lambda response, *_: partition_results(response.topics, lambda p: p.low_watermark),
            to_leaders,
            retried_briefly=(UnknownTopicOrPartitionError,),
        )
        return await self.call_per_key(call, offsets, timeout_ms, errors)

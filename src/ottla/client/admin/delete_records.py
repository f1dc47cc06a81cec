"""Records of topics, deleted before their time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.admin.driver import AdminCalls, Errors, failure
from ottla.errors import KafkaError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition
from ottla.protocol.messages import delete_records as records_api


class RecordsToDelete(NamedTuple):
    """Records before this offset; -1: all that are replicated."""

    before_offset: int

    @classmethod
    def before(cls, offset: int) -> RecordsToDelete:
        """Java's way to say it."""
        return cls(offset)


class RecordsAdmin(AdminCalls):
    """Calls about records."""

    async def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, RecordsToDelete | int],
        timeout_ms: float | None = None,
        *,
        partition_leader_id: int | None = None,
        errors: Errors | None = None,
    ) -> dict[TopicPartition, int]:
        """Forget the records before an offset (-1: before the high watermark); where each log begins now.

        Leaders are looked up; `partition_leader_id` is kafka-python's.
        """
        before = {
            TopicPartition(*tp): wanted.before_offset if isinstance(wanted, RecordsToDelete) else wanted
            for tp, wanted in records_to_delete.items()
        }

        async def attempt(left: list[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
            return await self.ask_for(
                await self.by_leader(left),
                lambda some: _records_request({tp: before[tp] for tp in some}, self.limit_ms(timeout_ms)),
                lambda _, answer: _watermarks(answer),
            )

        return await self.settled(before, attempt, timeout_ms, errors, doubted=UnknownTopicOrPartitionError)


def _watermarks(answer: records_api.DeleteRecordsResponse) -> dict[TopicPartition, int | KafkaError]:
    partitions = (
        (TopicPartition(topic.name, p.partition_index), p) for topic in answer.topics for p in topic.partitions
    )
    return {tp: failure(p.error_code, tp) or p.low_watermark for tp, p in partitions}


def _records_request(before: Mapping[TopicPartition, int], timeout_ms: int) -> records_api.DeleteRecordsRequest:
    topics: dict[str, list[records_api.DeleteRecordsPartition]] = {}
    for tp, offset in before.items():
        one = records_api.DeleteRecordsPartition(partition_index=tp.partition, offset=offset)
        topics.setdefault(tp.topic, []).append(one)
    return records_api.DeleteRecordsRequest(
        topics=[records_api.DeleteRecordsTopic(name=name, partitions=parts) for name, parts in topics.items()],
        timeout_ms=timeout_ms,
    )

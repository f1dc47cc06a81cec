"""Fetching from individual replicas, so that their records can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.admin.driver import AdminCall, AdminDriver, Errors, by_topic, failure, successes
from ottla.client.admin.log_dirs import TopicPartitionReplica, to_brokers_of_replicas
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages import fetch

NAMES_UNTIL = 12
"""The last version of Fetch that has topic names; later ones have topic ids."""


class ReplicaRecords(NamedTuple):
    """Encoded record batches of a replica from the requested offset on, and the replica's high watermark. The first
    batch may begin before that offset, and the last one may be incomplete.
    """

    high_watermark: int
    batches: bytes


class ReplicaRecordsAdmin(AdminDriver):
    """Admin calls for the records of replicas."""

    async def fetch_replicas(
        self,
        offsets: Mapping[TopicPartitionReplica, int],
        timeout_ms: float | None = None,
        *,
        max_bytes: int = 1_048_576,
        max_wait_ms: int = 0,
        errors: Errors | None = None,
    ) -> dict[TopicPartitionReplica, ReplicaRecords]:
        """Return the record batches of replicas from an offset on, with the replicas' high watermarks: at most
        `max_bytes` per replica, except for a larger first batch of a response. A broker without new records answers
        after `max_wait_ms`. Errors of replicas are not retried.
        """
        targets = {TopicPartitionReplica(*replica): offset for replica, offset in offsets.items()}
        call: AdminCall[TopicPartitionReplica, ReplicaRecords] = AdminCall(
            lambda replicas: _request({r: targets[r] for r in replicas}, max_bytes, max_wait_ms),
            _results,
            to_brokers_of_replicas,
            name="fetch",
            at_most=NAMES_UNTIL,
        )

        async def attempt() -> dict[TopicPartitionReplica, ReplicaRecords | KafkaError]:
            return await self.attempt(call, list(targets))

        return successes(await self.retry(attempt, timeout_ms), errors)


def _request(offsets: Mapping[TopicPartitionReplica, int], max_bytes: int, max_wait_ms: int) -> fetch.FetchRequest:
    topics = by_topic(
        {
            TopicPartition(r.topic, r.partition): fetch.FetchPartition(
                partition=r.partition, fetch_offset=offset, partition_max_bytes=max_bytes
            )
            for r, offset in offsets.items()
        }
    )
    return fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        topics=[fetch.FetchTopic(topic=name, partitions=partitions) for name, partitions in topics.items()],
    )


def _results(
    response: fetch.FetchResponse, _: object, broker: int
) -> dict[TopicPartitionReplica, ReplicaRecords | KafkaError]:
    results: dict[TopicPartitionReplica, ReplicaRecords | KafkaError] = {}
    for topic in response.responses:
        for data in topic.partitions:
            replica = TopicPartitionReplica(topic.topic, data.partition_index, broker)
            records = ReplicaRecords(data.high_watermark, b"" if data.records is None else bytes(data.records))
            results[replica] = failure(data.error_code, replica) or records
    return results

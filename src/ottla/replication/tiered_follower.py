"""The start of a follower of a tiered partition whose leader has the next records only in remote storage (KIP-405).

The follower requests the start of the leader's local log, and continues there or later, with the state of the earlier
records, which it reads from remote storage.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from ottla.cluster.interbroker.client import RequestSender
from ottla.errors import KafkaStorageError, for_code
from ottla.model import EARLIEST_TIMESTAMP, TopicPartition
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.replication.partition import Partition

LIST_OFFSETS_VERSION: Final = 8
OFFSET_FOR_LEADER_EPOCH_VERSION: Final = 4
EARLIEST_LOCAL_TIMESTAMP: Final = -4


class LeaderLocalStart(NamedTuple):
    """The start of a leader's local log.

    `offset`: the first offset on the leader's disk. `epoch_before`: the leader epoch of the record before it.
    `log_start_offset`: the start of the leader's whole log, including remote storage.
    """

    offset: int
    epoch_before: int
    log_start_offset: int


class AuxiliaryState(Protocol):
    """Builds the state of followers from remote storage. Implemented by `AuxiliaryStateBuilder`."""

    async def build(self, partition: Partition, leader: LeaderLocalStart) -> None:
        """Restart the log of a follower at the start of its leader's local log, or later. Raises KafkaError or
        OSError.
        """
        ...


class LeaderLocalStarts:
    """Requests to one leader for the start of its local log."""

    def __init__(self, own_id: int, leader: int, sender: RequestSender, timeout: float, purpose: str) -> None:
        """`timeout`: the timeout of each request in seconds."""
        self._own_id = own_id
        self._leader = leader
        self._sender = sender
        self._timeout = timeout
        self._purpose = purpose

    async def request(self, tp: TopicPartition, leader_epoch: int) -> LeaderLocalStart:
        """Return the start of a partition's local log on the leader. Raises KafkaError."""
        log_start, _ = await self._list(tp, leader_epoch, EARLIEST_TIMESTAMP)
        offset, epoch = await self._list(tp, leader_epoch, EARLIEST_LOCAL_TIMESTAMP)
        if epoch < 0:
            raise KafkaStorageError(f"broker {self._leader} has no leader epoch for offset {offset} of {tp}")
        earlier, end = await self._end_of(tp, leader_epoch, epoch - 1) if epoch else (-1, -1)
        return LeaderLocalStart(offset, earlier if end > offset - 1 else epoch, log_start)

    async def _list(self, tp: TopicPartition, leader_epoch: int, timestamp: int) -> tuple[int, int]:
        item = ListOffsetsPartition(
            partition_index=tp.partition, current_leader_epoch=leader_epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._own_id, topics=[ListOffsetsTopic(name=tp.topic, partitions=[item])]
        )
        response = await self._sender.send(
            self._leader, request, LIST_OFFSETS_VERSION, timeout=self._timeout, purpose=self._purpose
        )
        result = response.topics[0].partitions[0]
        if result.error_code:
            raise for_code(result.error_code)
        return result.offset, result.leader_epoch

    async def _end_of(self, tp: TopicPartition, leader_epoch: int, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch` in the leader's log, and its end offset; -1 and -1 for none."""
        item = OffsetForLeaderPartition(partition=tp.partition, current_leader_epoch=leader_epoch, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(
            replica_id=self._own_id, topics=[OffsetForLeaderTopic(topic=tp.topic, partitions=[item])]
        )
        response = await self._sender.send(
            self._leader, request, OFFSET_FOR_LEADER_EPOCH_VERSION, timeout=self._timeout, purpose=self._purpose
        )
        result = response.topics[0].partitions[0]
        if result.error_code:
            raise for_code(result.error_code)
        return result.leader_epoch, result.end_offset

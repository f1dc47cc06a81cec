"""Kafka's metadata quorum: its controllers, and which of them vote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from ottla.client.admin.driver import AdminCalls, check
from ottla.protocol.messages import add_raft_voter as add_voter
from ottla.protocol.messages import describe_quorum as quorum
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest

METADATA_TOPIC = "__cluster_metadata"


class QuorumMember(NamedTuple):
    """How far a member of the metadata quorum is. Times in milliseconds, None where they are not known."""

    replica_id: int
    directory_id: UUID
    log_end_offset: int
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None


class QuorumInfo(NamedTuple):
    """Kafka's metadata quorum; `nodes` are the addresses of its members by id and listener."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...]
    nodes: dict[int, dict[str, tuple[str, int]]]


class RaftVoterEndpoint(NamedTuple):
    """Where a controller listens."""

    listener: str
    host: str
    port: int


class QuorumAdmin(AdminCalls):
    """Calls about Kafka's controllers."""

    async def unregister_broker(self, broker_id: int, timeout_ms: float | None = None) -> None:
        """Have Kafka's controllers forget a broker that will not come back."""

        async def attempt() -> None:
            response = await self.ask_controller(UnregisterBrokerRequest(broker_id=broker_id))
            check(response.error_code, f"broker {broker_id}", response.error_message)

        await self.retried(attempt, timeout_ms)

    async def describe_metadata_quorum(self, timeout_ms: float | None = None) -> QuorumInfo:
        """The members of Kafka's metadata quorum and how far they are."""
        partition = quorum.PartitionRequest(partition_index=0)
        request = quorum.DescribeQuorumRequest(
            topics=[quorum.TopicRequest(topic_name=METADATA_TOPIC, partitions=[partition])]
        )

        async def attempt() -> QuorumInfo:
            response = await self.ask_controller(request)
            check(response.error_code, "quorum", response.error_message)
            p = response.topics[0].partitions[0]
            check(p.error_code, "quorum", p.error_message)
            return QuorumInfo(
                p.leader_id,
                p.leader_epoch,
                p.high_watermark,
                tuple(map(_member, p.current_voters)),
                tuple(map(_member, p.observers)),
                {n.node_id: {at.name: (at.host, at.port) for at in n.listeners} for n in response.nodes},
            )

        return await self.retried(attempt, timeout_ms)

    async def add_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: UUID,
        endpoints: Iterable[RaftVoterEndpoint],
        timeout_ms: float | None = None,
        cluster_id: str | None = None,
    ) -> None:
        """Let a controller vote (KIP-853)."""
        listeners = [add_voter.Listener(name=e[0], host=e[1], port=e[2]) for e in endpoints]

        async def attempt() -> None:
            request = add_voter.AddRaftVoterRequest(
                cluster_id=cluster_id,
                timeout_ms=self.limit_ms(timeout_ms),
                voter_id=voter_id,
                voter_directory_id=voter_directory_id,
                listeners=listeners,
            )
            response = await self.ask_controller(request)
            check(response.error_code, f"voter {voter_id}", response.error_message)

        await self.retried(attempt, timeout_ms)

    async def remove_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: UUID,
        timeout_ms: float | None = None,
        cluster_id: str | None = None,
    ) -> None:
        """Let a controller vote no more (KIP-853)."""
        request = RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=voter_directory_id
        )

        async def attempt() -> None:
            response = await self.ask_controller(request)
            check(response.error_code, f"voter {voter_id}", response.error_message)

        await self.retried(attempt, timeout_ms)


def _member(state: Any) -> QuorumMember:
    return QuorumMember(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        None if state.last_fetch_timestamp < 0 else state.last_fetch_timestamp,
        None if state.last_caught_up_timestamp < 0 else state.last_caught_up_timestamp,
    )

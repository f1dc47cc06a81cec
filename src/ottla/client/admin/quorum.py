"""Admin calls for KRaft controllers: the members of the metadata quorum, its voters, unregistration of brokers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from ottla.client.admin.driver import AdminDriver, check, to_controller
from ottla.protocol.messages import add_raft_voter as add_voter
from ottla.protocol.messages import describe_quorum as quorum
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest

METADATA_TOPIC = "__cluster_metadata"


class QuorumMember(NamedTuple):
    """The progress of a quorum member. Times in milliseconds since 1970, None if unknown."""

    replica_id: int
    directory_id: UUID
    log_end_offset: int
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None


class QuorumInfo(NamedTuple):
    """The metadata quorum. `nodes`: addresses (host, port) of the nodes in the response, by id and listener name."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...]
    nodes: dict[int, dict[str, tuple[str, int]]]


class RaftVoterEndpoint(NamedTuple):
    """A listener of a controller."""

    listener: str
    host: str
    port: int


class QuorumAdmin(AdminDriver):
    """Admin calls for KRaft controllers."""

    async def unregister_broker(self, broker_id: int, timeout_ms: float | None = None) -> None:
        """Unregister a broker that was shut down permanently: the KRaft controllers remove its registration."""
        request = UnregisterBrokerRequest(broker_id=broker_id)
        await self.call(request, _ignore, timeout_ms, f"broker {broker_id}", to_controller)

    async def describe_metadata_quorum(self, timeout_ms: float | None = None) -> QuorumInfo:
        """Return the members of the metadata quorum and their progress."""
        partition = quorum.PartitionRequest(partition_index=0)
        request = quorum.DescribeQuorumRequest(
            topics=[quorum.TopicRequest(topic_name=METADATA_TOPIC, partitions=[partition])]
        )
        return await self.call(request, _quorum_info, timeout_ms, "quorum", to_controller)

    async def add_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: UUID,
        endpoints: Iterable[RaftVoterEndpoint],
        timeout_ms: float | None = None,
        cluster_id: str | None = None,
    ) -> None:
        """Make a controller a voter (KIP-853). `cluster_id` is checked by the controllers (None: not checked)."""
        request = add_voter.AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=self.milliseconds(timeout_ms),
            voter_id=voter_id,
            voter_directory_id=voter_directory_id,
            listeners=[add_voter.Listener(name=e[0], host=e[1], port=e[2]) for e in endpoints],
        )
        await self.call(request, _ignore, timeout_ms, f"voter {voter_id}", to_controller)

    async def remove_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: UUID,
        timeout_ms: float | None = None,
        cluster_id: str | None = None,
    ) -> None:
        """Remove a controller from the voters (KIP-853). `cluster_id`: as for `add_raft_voter`."""
        request = RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=voter_directory_id
        )
        await self.call(request, _ignore, timeout_ms, f"voter {voter_id}", to_controller)


def _ignore(_: object) -> None:
    """Accept a response without content."""


def _quorum_info(response: quorum.DescribeQuorumResponse) -> QuorumInfo:
    p = response.topics[0].partitions[0]
    check(p.error_code, "quorum", p.error_message)
    return QuorumInfo(
        p.leader_id,
        p.leader_epoch,
        p.high_watermark,
        tuple(map(_member, p.current_voters)),
        tuple(map(_member, p.observers)),
        {
            n.node_id: {listener.name: (listener.host, listener.port) for listener in n.listeners}
            for n in response.nodes
        },
    )


def _member(state: Any) -> QuorumMember:
    return QuorumMember(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        None if state.last_fetch_timestamp < 0 else state.last_fetch_timestamp,
        None if state.last_caught_up_timestamp < 0 else state.last_caught_up_timestamp,
    )

"""The controller's requests to a broker, from the difference between two images, without I/O.

A broker that has received nothing yet, or needs everything again (`before` is None), gets the complete image.
LeaderAndIsr goes to the brokers with replicas of partitions whose leader or assignment has changed, UpdateMetadata to
all brokers, StopReplica to brokers whose replicas are removed, or have to stop for a controlled shutdown. ISR updates
are sent with UpdateMetadata only, because the leader has them from the response to AlterPartition. The controller sends
no requests to its own broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

from ottla.cluster.image import image_delta
from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage, PartitionImage
from ottla.cluster.image.image_delta import ChangedPartition, StoppedReplica
from ottla.model import TopicPartition
from ottla.protocol.message import Struct, encode
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)


def leader_and_isr(
    before: ClusterImage | None, after: ClusterImage, to: BrokerImage, changes: Iterable[ChangedPartition] | None = None
) -> LeaderAndIsrRequest | None:
    """Return the LeaderAndIsr request with the new states of a broker's replicas.

    Return None if there are none and `before` is not None. `changes`: the changed partitions that have a replica on the
    broker; None: compute them.
    """
    by_topic: dict[str, list[LeaderAndIsrPartitionState]] = {}
    leaders: set[int] = set()
    for topic, index, now, was in image_delta.changed_partitions(before, after) if changes is None else changes:
        if to.id in now.replicas and (was is None or _assignment(was) != _assignment(now)):
            by_topic.setdefault(topic.name, []).append(_leader_and_isr_state(index, now, after, is_new=was is None))
            leaders.add(now.leader)
    if not by_topic and before is not None:
        return None
    return LeaderAndIsrRequest(
        controller_id=after.controller_id,
        controller_epoch=after.controller_epoch,
        broker_epoch=to.epoch,
        type=image_delta.INCREMENTAL,
        topic_states=[
            LeaderAndIsrTopicState(topic_name=name, topic_id=after.topics[name].id, partition_states=states)
            for name, states in by_topic.items()
        ],
        live_leaders=[_live_leader(after.brokers[leader]) for leader in sorted(leaders & after.brokers.keys())],
    )


UPDATE_METADATA_VERSION: Final = 8
EPOCH_POSITION: Final = 9
"""Byte offset of `broker_epoch` in UpdateMetadata version 8: after `controller_id` (4), `is_kraft_controller` (1) and
`controller_epoch` (4).
"""
LATEST_DIFFERENCES: Final = 4
"""Maximum number of differences that are kept.

Several may be in use at a time: a broker that answered late has an older image than the rest, so it is sent another
difference.
"""
NO_BROKER: Final = BrokerImage(-1, ())


class EncodedUpdateMetadata(UpdateMetadataRequest):
    """An UpdateMetadata request whose body is already encoded."""

    __slots__ = ("body",)
    RESPONSE = UpdateMetadataResponse

    def __init__(self, body: bytes) -> None:
        self.body = body


def _write_body(message: Struct, out: bytearray, cuts: object) -> None:
    assert isinstance(message, EncodedUpdateMetadata)
    out += message.body


EncodedUpdateMetadata.encoders[UPDATE_METADATA_VERSION] = _write_body


class _Difference:
    """Two images, and the common parts of the requests to all brokers: the encoded UpdateMetadata, and the changed
    partitions by broker id.
    """

    def __init__(self, before: ClusterImage | None, after: ClusterImage) -> None:
        self.before = before
        self.after = after

    @cached_property
    def update_metadata(self) -> bytes | None:
        request = update_metadata(self.before, self.after, NO_BROKER)
        return None if request is None else bytes(encode(request, UPDATE_METADATA_VERSION))

    @cached_property
    def changes(self) -> dict[int, list[ChangedPartition]]:
        changes: dict[int, list[ChangedPartition]] = {}
        for change in image_delta.changed_partitions(self.before, self.after):
            for replica in change[2].replicas:
                changes.setdefault(replica, []).append(change)
        return changes


class BrokerRequests:
    """Builds LeaderAndIsr and UpdateMetadata requests to all brokers from the difference between two images.

    The common parts of the requests are built once. In a large cluster, building them for each broker would take most
    of the time that a new controller needs.
    """

    def __init__(self) -> None:
        self._latest: deque[_Difference] = deque(maxlen=LATEST_DIFFERENCES)

    def update_metadata(
        self, before: ClusterImage | None, after: ClusterImage, to: BrokerImage
    ) -> EncodedUpdateMetadata | None:
        """Return the result of the function `update_metadata`, encoded in version 8."""
        body = self._difference(before, after).update_metadata
        if body is None:
            return None
        epoch = to.epoch.to_bytes(8, "big", signed=True)
        return EncodedUpdateMetadata(body[:EPOCH_POSITION] + epoch + body[EPOCH_POSITION + len(epoch) :])

    def leader_and_isr(
        self, before: ClusterImage | None, after: ClusterImage, to: BrokerImage
    ) -> LeaderAndIsrRequest | None:
        """Return the result of the function `leader_and_isr`, from changes that are computed once for all brokers."""
        return leader_and_isr(before, after, to, self._difference(before, after).changes.get(to.id, ()))

    def _difference(self, before: ClusterImage | None, after: ClusterImage) -> _Difference:
        for difference in self._latest:
            if difference.before is before and difference.after is after:
                return difference
        self._latest.append(_Difference(before, after))
        return self._latest[-1]


def update_metadata(before: ClusterImage | None, after: ClusterImage, to: BrokerImage) -> UpdateMetadataRequest | None:
    """Return the UpdateMetadata request with the live brokers and the changed partitions.

    Return None if neither brokers, partitions nor the controller epoch have changed. Topics that are deleted are marked
    with the leader `image_delta.DELETED`.
    """
    by_topic: dict[str, list[UpdateMetadataPartitionState]] = {}
    deleted_topics = {topic.name: topic for topic in image_delta.deleted_topics(before, after)}
    for topic, index, now, _ in image_delta.changed_partitions(before, after):
        by_topic.setdefault(topic.name, []).append(_state(index, now, after))
    for topic in deleted_topics.values():
        by_topic[topic.name] = [_deleted(index, p, after) for index, p in enumerate(topic.partitions)]
    same_brokers = before is not None and before.brokers == after.brokers
    if not by_topic and same_brokers and before is not None and before.controller_epoch == after.controller_epoch:
        return None
    return UpdateMetadataRequest(
        controller_id=after.controller_id,
        type=image_delta.FULL if before is None else image_delta.INCREMENTAL,
        controller_epoch=after.controller_epoch,
        broker_epoch=to.epoch,
        topic_states=[
            UpdateMetadataTopicState(
                topic_name=name, topic_id=(deleted_topics.get(name) or after.topics[name]).id, partition_states=states
            )
            for name, states in by_topic.items()
        ],
        live_brokers=[_live_broker(broker) for broker in after.brokers.values()],
    )


def stop_replica(
    ended: Mapping[TopicPartition, StoppedReplica], image: ClusterImage, to: BrokerImage
) -> StopReplicaRequest:
    """Return the StopReplica request for the replicas that a broker has to stop (see
    `image_delta.stopped_replicas`).
    """
    by_topic: dict[str, list[StopReplicaPartitionState]] = {}
    for tp, how in ended.items():
        state = StopReplicaPartitionState(
            partition_index=tp.partition, leader_epoch=how.leader_epoch, delete_partition=how.delete
        )
        by_topic.setdefault(tp.topic, []).append(state)
    return StopReplicaRequest(
        controller_id=image.controller_id,
        controller_epoch=image.controller_epoch,
        broker_epoch=to.epoch,
        topic_states=[StopReplicaTopicState(topic_name=n, partition_states=s) for n, s in by_topic.items()],
    )


def _assignment(p: PartitionImage) -> tuple[object, ...]:
    """Return the fields of a partition whose changes are sent to its replicas with LeaderAndIsr."""
    return p.leader, p.leader_epoch, p.replicas, p.adding, p.removing


def _leader_and_isr_state(
    index: int, p: PartitionImage, image: ClusterImage, *, is_new: bool
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=index,
        controller_epoch=image.controller_epoch,
        leader=p.leader,
        leader_epoch=p.leader_epoch,
        isr=list(p.isr),
        partition_epoch=p.state_version,
        replicas=list(p.replicas),
        adding_replicas=list(p.adding),
        removing_replicas=list(p.removing),
        is_new=is_new,
    )


def _state(index: int, p: PartitionImage, image: ClusterImage) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=index,
        controller_epoch=image.controller_epoch,
        leader=p.leader,
        leader_epoch=p.leader_epoch,
        isr=list(p.isr),
        zk_version=p.state_version,
        replicas=list(p.replicas),
        offline_replicas=image.offline_replicas(p),
    )


def _deleted(index: int, p: PartitionImage, image: ClusterImage) -> UpdateMetadataPartitionState:
    state = _state(index, p, image)
    state.leader = image_delta.DELETED
    return state


def _live_leader(broker: BrokerImage) -> LeaderAndIsrLiveLeader:
    first = broker.endpoints[0]
    return LeaderAndIsrLiveLeader(broker_id=broker.id, host_name=first.host, port=first.port)


def _live_broker(broker: BrokerImage) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=e.port,
                host=e.host,
                listener=e.name,
                security_protocol=image_delta.PROTOCOL_NUMBERS.get(e.protocol, 0),
            )
            for e in broker.endpoints
        ],
        rack=broker.rack,
    )

"""The controller's requests to a broker, from the difference of two images, without I/O.

A broker that has received nothing yet (`before` is None) gets everything. LeaderAndIsr goes to replicas whose leader or
assignment has changed, UpdateMetadata to all brokers, StopReplica to replicas that are removed. ISR updates of a leader
are sent with UpdateMetadata only, as the leader has them from the controller's response.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.cluster.image import image_delta
from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage, PartitionImage
from ottla.cluster.image.image_delta import StoppedReplica
from ottla.model import TopicPartition
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
    UpdateMetadataTopicState,
)


def leader_and_isr(before: ClusterImage | None, after: ClusterImage, to: BrokerImage) -> LeaderAndIsrRequest | None:
    """Return the new states of a broker's replicas, or None if none has changed."""
    by_topic: dict[str, list[LeaderAndIsrPartitionState]] = {}
    leaders: set[int] = set()
    for topic, index, now, was in image_delta.changed_partitions(before, after):
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


def update_metadata(before: ClusterImage | None, after: ClusterImage, to: BrokerImage) -> UpdateMetadataRequest | None:
    """Return the changed brokers, topics and partitions, or None if there are none."""
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
    """Return the replicas that a broker has to stop (see `image_delta.stopped_replicas`)."""
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
    """Return what a replica's role depends on."""
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
        offline_replicas=[replica for replica in p.replicas if replica not in image.brokers],
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

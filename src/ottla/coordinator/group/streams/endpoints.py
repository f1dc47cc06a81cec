"""The partitions of the active and standby tasks of each member with an address, for interactive queries.

Kafka's `EndpointToPartitionsManager`.
"""

from __future__ import annotations

from ottla.cluster.image.cluster_image import ClusterImage
from ottla.coordinator.group.streams.configured_topology import ConfiguredTopology
from ottla.coordinator.group.streams.streams_group import StreamsGroup, StreamsMember
from ottla.coordinator.group.streams.streams_topology import StreamsTopology, sources_of
from ottla.coordinator.group.streams.tasks import TaskRole, by_subtopology
from ottla.protocol.messages import streams_group_heartbeat as m


def endpoints(group: StreamsGroup, configured: ConfiguredTopology, image: ClusterImage) -> list[m.EndpointToPartitions]:
    """Return the partitions of each member with an address.

    If the topology is not ready, the members are listed without partitions.
    """
    return [
        m.EndpointToPartitions(
            user_endpoint=m.Endpoint(host=member.user_endpoint.host, port=member.user_endpoint.port),
            active_partitions=_partitions(member, TaskRole.ACTIVE, configured, image),
            standby_partitions=_partitions(member, TaskRole.STANDBY, configured, image),
        )
        for member in group.members.values()
        if member.user_endpoint is not None
    ]


def _partitions(
    member: StreamsMember, role: TaskRole, configured: ConfiguredTopology, image: ClusterImage
) -> list[m.TopicPartition]:
    if not configured.is_ready:
        return []
    return [
        m.TopicPartition(topic=topic, partitions=[n for n in partitions if n < len(image.topics[topic].partitions)])
        for subtopology_id, partitions in by_subtopology(member.assigned, role)
        for topic in _sources(configured.topology, subtopology_id)
    ]


def _sources(topology: StreamsTopology, subtopology_id: str) -> list[str]:
    subtopology = topology.subtopologies.get(subtopology_id)
    return [] if subtopology is None else sources_of(subtopology)

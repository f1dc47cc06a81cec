"""Authorized operations (KIP-430), which are returned only if they are requested."""

from pathlib import Path

from tests.unit.broker.broker_client import BrokerClient, with_broker
from tests.unit.broker.group_requests import commit, prepare
from tests.unit.broker.produce_and_fetch import create

from ottla.model import ACLOperation
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.security.acl import ACL, ACLPermissionType, ResourcePattern, ResourceType
from ottla.security.authorizer import Authorizer

NOT_REQUESTED = -(1 << 31)
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(
    3, 13
)
ON_TOPICS = {READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS}
ON_GROUPS = {READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS}
ON_CLUSTERS = {CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE}


def operations(bits: int) -> set[int]:
    return {number for number in range(31) if bits >> number & 1}


def test_all_topic_and_cluster_operations_are_authorized_without_an_authorizer(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        topics = [MetadataRequestTopic(name="t")]
        options = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
        actual = await client.request(MetadataRequest(topics=topics, **options), 10)
        assert operations(actual.topics[0].topic_authorized_operations) == ON_TOPICS
        assert operations(actual.cluster_authorized_operations) == ON_CLUSTERS
        actual = await client.request(MetadataRequest(topics=topics), 10)
        assert (actual.topics[0].topic_authorized_operations, actual.cluster_authorized_operations) == (
            NOT_REQUESTED,
            NOT_REQUESTED,
        )
        paged = await client.request(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]), 0)
        assert operations(paged.topics[0].topic_authorized_operations) == ON_TOPICS
        cluster = await client.request(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
        assert operations(cluster.cluster_authorized_operations) == ON_CLUSTERS
        assert (await client.request(DescribeClusterRequest(), 1)).cluster_authorized_operations == NOT_REQUESTED

    with_broker(test, tmp_path)


def test_all_group_operations_are_authorized_without_an_authorizer(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        assert await commit(client, 1) == 0
        for requested, expected in ((True, ON_GROUPS), (False, operations(0))):
            request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=requested)
            actual = (await client.request(request, 5)).groups[0].authorized_operations
            assert operations(actual) == expected

    with_broker(test, tmp_path)


def allow(client: BrokerClient, *acls: tuple[ACLOperation, ResourceType, str]) -> None:
    """Replace the ACLs of the broker by these, which allow the operations to everyone."""
    everyone = ("User:*", "*")
    authorizer = Authorizer()
    authorizer.replace(
        ACL(*everyone, operation, ACLPermissionType.ALLOW, ResourcePattern(kind, name))
        for operation, kind, name in acls
    )
    object.__setattr__(client.context, "authorizer", authorizer)


def test_authorized_operations_follow_the_acls(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        await prepare(client)
        assert await commit(client, 1) == 0
        allow(
            client,
            (ACLOperation.READ, ResourceType.TOPIC, "*"),
            (ACLOperation.DELETE, ResourceType.GROUP, "g"),
            (ACLOperation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster"),
            (ACLOperation.CREATE, ResourceType.CLUSTER, "kafka-cluster"),
        )
        topics = [MetadataRequestTopic(name="t")]
        options = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
        actual = await client.request(MetadataRequest(topics=topics, **options), 10)
        assert operations(actual.topics[0].topic_authorized_operations) == {READ, DESCRIBE}
        assert operations(actual.cluster_authorized_operations) == {CREATE, DESCRIBE}
        paged = await client.request(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]), 0)
        assert operations(paged.topics[0].topic_authorized_operations) == {READ, DESCRIBE}
        cluster = await client.request(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
        assert operations(cluster.cluster_authorized_operations) == {CREATE, DESCRIBE}
        group = await client.request(DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 5)
        assert operations(group.groups[0].authorized_operations) == {DELETE, DESCRIBE}
        allow(client, (ACLOperation.CREATE, ResourceType.CLUSTER, "kafka-cluster"))
        cluster = await client.request(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
        assert cluster.cluster_authorized_operations == 0

    with_broker(test, tmp_path)

"""Scenarios of the admin client, with Ottla (unit tests) and Apache Kafka (interop).

A scenario gets the client, a unique name, and the kind of cluster: "ottla", "ottla with ACLs", "3.9" or "4.3".
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.client.streams_thread import StreamsThread

from ottla import (
    ACL,
    AbortTransactionSpec,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    AlterConfigOp,
    ClientQuotaAlteration,
    ClientQuotaFilter,
    ClientQuotaFilterComponent,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ElectionType,
    FeatureUpdate,
    GroupState,
    GroupType,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    MemberToRemove,
    NewPartitionReassignment,
    NewPartitions,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    RecordsToDelete,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    TopicPartition,
    TopicPartitionReplica,
    TransactionState,
    UpgradeType,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
    errors,
)

Scenario = Callable[[KafkaAdminClient, str, str], None]
SCENARIOS: list[Scenario] = []

OTTLA = "ottla"
RESTRICTED = "ottla with ACLs"


def scenario(test: Scenario) -> Scenario:
    SCENARIOS.append(test)
    return test


def until(condition: Callable[[], Any], seconds: float = 30) -> Any:
    """Wait until a condition is true, and return its value."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.05)


def create_topic(admin: KafkaAdminClient, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> str:
    admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs or {})], wait_for_metadata=True)
    return name


def create_topic_with_records(admin: KafkaAdminClient, name: str, count: int = 5) -> TopicPartition:
    create_topic(admin, name)
    with KafkaProducer(bootstrap_servers=address(admin)) as producer:
        for number in range(count):
            producer.send(name, b"%d" % number, timestamp_ms=1_700_000_000_000 + 1000 * number).get(30)
    return TopicPartition(name, 0)


def address(admin: KafkaAdminClient) -> str:
    host, port = admin.config.bootstrap_servers[0]
    return f"{host}:{port}"


# Topics


@scenario
def topics_are_created_listed_described_and_deleted(admin: KafkaAdminClient, name: str, kind: str) -> None:
    created = admin.create_topics([NewTopic(name, 3, 1, topic_configs={"retention.ms": "60000"})])
    assert created[name].num_partitions == 3
    assert created[name].replication_factor == 1
    configs = created[name].configs
    assert configs is not None
    assert configs["retention.ms"].value == "60000"
    admin.wait_for_topics([name])
    assert name in admin.list_topics()
    listing = next(t for t in admin.list_topic_listings() if t.name == name)
    assert (listing.topic_id, listing.is_internal) == (created[name].topic_id, False)
    info = admin.describe_topics([name])[name]
    assert [p.partition for p in info.partitions] == [0, 1, 2]
    assert info.topic_id == created[name].topic_id
    assert admin.describe_topics([info.topic_id])[name] == info
    admin.delete_topics([info.topic_id])
    until(lambda: name not in admin.list_topics())
    with pytest.raises(errors.UnknownTopicOrPartitionError, match=name):
        admin.describe_topics([name])
    with pytest.raises(errors.UnknownTopicIdError):
        admin.describe_topics([uuid.uuid4()])
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.delete_topics([name])


@scenario
def topics_are_created_from_names_mappings_and_assignments(admin: KafkaAdminClient, name: str, kind: str) -> None:
    admin.create_topics([f"{name}-a"])
    admin.create_topics({f"{name}-b": {"num_partitions": 2, "configs": {"cleanup.policy": "compact"}}})
    node = admin.describe_cluster().nodes[0].id
    admin.create_topics([NewTopic(f"{name}-c", replica_assignments={0: [node], 1: [node]})], wait_for_metadata=True)
    admin.wait_for_topics([f"{name}-a", f"{name}-b"])
    admin.wait_for_topics(f"{name}-a", timeout_ms=5000)
    result = admin.describe_topics([f"{name}-b", f"{name}-c"])
    assert [len(info.partitions) for info in result.values()] == [2, 2]
    with pytest.raises(TypeError):
        admin.create_topics("no list")


@scenario
def failed_topic_does_not_affect_the_others(admin: KafkaAdminClient, name: str, kind: str) -> None:
    create_topic(admin, f"{name}-old")
    failed: dict[Any, errors.KafkaError] = {}
    expected = [NewTopic(f"{name}-old", 1, 1), NewTopic(f"{name}-new", 1, 1), NewTopic(f"{name}-wide", 1, 99)]
    created = admin.create_topics(expected, errors=failed)
    assert list(created) == [f"{name}-new"]
    assert type(failed[f"{name}-old"]) is errors.TopicAlreadyExistsError
    assert type(failed[f"{name}-wide"]) is errors.InvalidReplicationFactorError
    with pytest.raises(errors.TopicAlreadyExistsError) as raised:
        admin.create_topics(expected)
    assert "3 of 3 failed" in raised.value.__notes__[0]
    assert admin.create_topics(expected, raise_errors=False) == {}


@scenario
def validate_only_changes_nothing(admin: KafkaAdminClient, name: str, kind: str) -> None:
    admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)
    assert name not in admin.list_topics()
    create_topic(admin, name)
    admin.create_partitions({name: 3}, validate_only=True)
    resource = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "5"})
    admin.alter_configs([resource], validate_only=True)
    assert len(admin.describe_topics([name])[name].partitions) == 1
    assert admin.describe_configs([resource.plain])[resource.plain]["retention.ms"].is_default
    with pytest.raises(errors.InvalidConfigError):
        admin.alter_configs([resource._replace(configs={"retention.ms": "x"})], validate_only=True)


@scenario
def partitions_are_created(admin: KafkaAdminClient, name: str, kind: str) -> None:
    create_topic(admin, name)
    node = admin.describe_cluster().nodes[0].id
    admin.create_partitions({name: 2})
    admin.create_partitions({name: NewPartitions(3, [[node]])})
    admin.create_partitions({name: {"count": 4, "assignments": [[node]]}})
    until(lambda: len(admin.describe_topics([name])[name].partitions) == 4)
    with pytest.raises(errors.InvalidPartitionsError):
        admin.create_partitions({name: 2})
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.create_partitions({f"{name}-no": 2})


@scenario
def topics_are_described_page_by_page(admin: KafkaAdminClient, name: str, kind: str) -> None:
    create_topic(admin, name, 5)
    page = admin.describe_topic_partitions(name, response_partition_limit=3)
    numbers = [p.partition for p in page.topics[0].partitions]
    assert page.next_cursor is not None
    rest = admin.describe_topic_partitions([name], cursor=page.next_cursor)
    assert numbers + [p.partition for p in rest.topics[0].partitions] == [0, 1, 2, 3, 4]
    assert rest.next_cursor is None


@scenario
def records_are_deleted(admin: KafkaAdminClient, name: str, kind: str) -> None:
    tp = create_topic_with_records(admin, name)
    assert admin.delete_records({tp: 2}) == {tp: 2}
    assert admin.delete_records({tp: RecordsToDelete.before(3)}) == {tp: 3}
    assert admin.list_offsets({tp: OffsetSpec.earliest()})[tp].offset == 3
    assert admin.delete_records({tp: -1}) == {tp: 5}
    with pytest.raises(errors.OffsetOutOfRangeError):
        admin.delete_records({tp: 9})
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.delete_records({TopicPartition(name, 7): 1})


# Offsets, leaders, replicas


@scenario
def offsets_are_listed_by_spec(admin: KafkaAdminClient, name: str, kind: str) -> None:
    tp = create_topic_with_records(admin, name)
    for spec, offset in (
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 5),
        (OffsetSpec.for_timestamp(1_700_000_001_500), 2),
        (OffsetSpec.for_timestamp(1_700_000_999_000), -1),
        (OffsetSpec.max_timestamp(), 4),
        (OffsetSpec.earliest_local(), 0),
    ):
        assert admin.list_offsets({tp: spec})[tp].offset == offset
    assert admin.list_partition_offsets({tp: -1}, isolation_level=1)[tp].offset == 5
    failed: dict[Any, errors.KafkaError] = {}
    other = TopicPartition(name, 3)
    result = admin.list_offsets({tp: OffsetSpec.latest(), other: OffsetSpec.latest()}, errors=failed)
    assert list(result) == [tp]
    assert type(failed[other]) is errors.UnknownTopicOrPartitionError


@scenario
def leaders_are_elected(admin: KafkaAdminClient, name: str, kind: str) -> None:
    create_topic(admin, name, 2)
    tp = TopicPartition(name, 0)
    assert admin.elect_leaders(ElectionType.PREFERRED, [tp]) == set()
    assert admin.elect_leaders(0, {name: [0, 1]}) == set()
    assert isinstance(admin.elect_leaders(ElectionType.PREFERRED), set)
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(name, 9)])


@scenario
def partitions_are_reassigned(admin: KafkaAdminClient, name: str, kind: str) -> None:
    create_topic(admin, name)
    tp = TopicPartition(name, 0)
    node = admin.describe_cluster().nodes[0].id
    admin.alter_partition_reassignments({tp: NewPartitionReassignment([node])})
    until(lambda: not admin.list_partition_reassignments([tp]))
    assert tp not in admin.list_partition_reassignments()
    with pytest.raises(errors.NoReassignmentInProgressError):
        admin.alter_partition_reassignments({tp: None})
    with pytest.raises(errors.InvalidReplicaAssignmentError):
        admin.alter_partition_reassignments({tp: [12345]})


# Configs


@scenario
def configs_are_set_appended_to_and_removed(admin: KafkaAdminClient, name: str, kind: str) -> None:
    create_topic(admin, name, configs={"retention.ms": "60000"})
    resource = ConfigResource(ConfigResourceType.TOPIC, name)

    def value(config: str) -> str | None:
        return admin.describe_configs([resource])[resource][config].value

    admin.alter_configs([resource._replace(configs={"retention.ms": "5000", "segment.ms": "7000"})])
    until(lambda: value("retention.ms") == "5000")
    changes: dict[str, Any] = {"cleanup.policy": (AlterConfigOp.APPEND, "compact"), "segment.ms": None}
    admin.incremental_alter_configs({resource: changes})
    until(lambda: set((value("cleanup.policy") or "").split(",")) == {"delete", "compact"})
    admin.alter_configs([resource._replace(configs={"cleanup.policy": (AlterConfigOp.SUBTRACT, "delete")})])
    until(lambda: value("cleanup.policy") == "compact")
    admin.reset_configs([resource._replace(configs=["cleanup.policy"])])
    entry = until(lambda: (e := admin.describe_configs([resource])[resource]["cleanup.policy"]).is_default and e)
    assert entry.source == ConfigSource.DEFAULT_CONFIG
    admin.alter_configs([resource._replace(configs={"segment.ms": "9000"})], incremental=False)
    until(lambda: value("segment.ms") == "9000")
    assert admin.describe_configs([resource])[resource]["retention.ms"].is_default
    with pytest.raises(errors.InvalidConfigError):
        admin.alter_configs([resource._replace(configs={"segment.ms": "-5"})])
    # Long before default.api.timeout.ms, which is a minute.
    start = time.monotonic()
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.describe_configs([ConfigResource("topic", f"{name}-no")])
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.alter_configs([ConfigResource("topic", f"{name}-no", {"retention.ms": "1"})])
    assert time.monotonic() - start < 30


@scenario
def configs_have_synonyms_and_documentation(admin: KafkaAdminClient, name: str, kind: str) -> None:
    create_topic(admin, name, configs={"retention.ms": "60000"})
    expected = ConfigResource(ConfigResourceType.TOPIC, name, ["retention.ms"])
    (entries,) = admin.describe_configs([expected], include_synonyms=True, include_documentation=True).values()
    entry = entries["retention.ms"]
    assert list(entries) == ["retention.ms"]
    (modified,) = admin.describe_configs([expected.plain], config_filter="modified").values()
    assert list(modified) == ["retention.ms"]
    (others,) = admin.describe_configs([expected.plain], config_filter="default").values()
    assert "retention.ms" not in others
    assert "segment.ms" in others
    with pytest.raises(ValueError, match="modified"):
        admin.describe_configs([expected], config_filter="some")
    assert entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert entry.synonyms[0].value == "60000"
    assert entry.config_type == 5
    assert entry.documentation


@scenario
def broker_configs_are_altered_and_described(admin: KafkaAdminClient, name: str, kind: str) -> None:
    node = admin.describe_cluster().nodes[0].id
    own = ConfigResource(ConfigResourceType.BROKER, str(node))
    cluster_default = ConfigResource(ConfigResourceType.BROKER, "")
    loggers = ConfigResource(ConfigResourceType.BROKER_LOGGER, str(node))
    admin.alter_configs([cluster_default._replace(configs={"log.cleaner.threads": "2"})])
    until(lambda: admin.describe_configs([own])[own]["log.cleaner.threads"].value == "2")
    assert not admin.describe_configs([own])[own]["log.cleaner.threads"].is_modified
    (modified,) = admin.describe_configs([cluster_default], config_filter="modified").values()
    assert modified["log.cleaner.threads"].is_modified
    admin.reset_configs([cluster_default._replace(configs=["log.cleaner.threads"])])
    admin.alter_configs([own._replace(configs={"log.index.interval.bytes": "5000"})])
    until(lambda: admin.describe_configs([own])[own]["log.index.interval.bytes"].is_modified)
    create_topic(admin, name)
    topic = ConfigResource(ConfigResourceType.TOPIC, name)
    assert not admin.describe_configs([topic])[topic]["index.interval.bytes"].is_modified, "it is the broker's"
    admin.reset_configs([own._replace(configs=["log.index.interval.bytes"])])
    # The jars of 3.9 in the tests have no log4j.
    expected = {own, cluster_default, loggers} if kind != "3.9" else {own, cluster_default}
    result = admin.describe_configs(expected)
    assert set(result) == expected
    assert result[own]["log.dirs" if "log.dirs" in result[own] else "log.dir"].read_only


@scenario
def config_resources_are_listed(admin: KafkaAdminClient, name: str, kind: str) -> None:
    metrics = ConfigResource(ConfigResourceType.CLIENT_METRICS, name)
    admin.alter_configs([metrics._replace(configs={"metrics": "org.apache.kafka.", "interval.ms": "1000"})])
    until(lambda: name in admin.list_client_metrics_resources())
    assert metrics in admin.list_config_resources([ConfigResourceType.CLIENT_METRICS])
    if kind != "3.9":
        create_topic(admin, name)
        until(lambda: ConfigResource(ConfigResourceType.TOPIC, name) in admin.list_config_resources(["topic"]))
        assert ConfigResource(ConfigResourceType.TOPIC, name) in admin.list_config_resources()
    else:
        with pytest.raises(errors.UnsupportedVersionError):
            admin.list_config_resources(["topic"])
    admin.reset_configs([metrics._replace(configs=["metrics", "interval.ms"])])


# Groups


@scenario
def groups_are_described_and_their_members_removed(admin: KafkaAdminClient, name: str, kind: str) -> None:
    create_topic(admin, name, 2)
    with KafkaConsumer(
        name, bootstrap_servers=address(admin), group_id=name, group_instance_id="static", client_id="reader"
    ) as consumer:
        until(lambda: consumer.poll(timeout_ms=100) or consumer.assignment())
        description = until(lambda: (g := admin.describe_consumer_groups([name])[name]).state == "Stable" and g)
        (member,) = description.members
        assert (member.group_instance_id, member.client_id) == ("static", "reader")
        assert set(member.assignment) == {TopicPartition(name, 0), TopicPartition(name, 1)}
        assert (description.group_type, description.protocol_type) == (GroupType.CLASSIC, "consumer")
        assert admin.describe_classic_groups([name])[name].members == description.members
        assert admin.describe_groups([name])[name].protocol == description.protocol
        (listing,) = [g for g in admin.list_consumer_groups(states_filter=[GroupState.STABLE]) if g.group_id == name]
        assert (listing.state, listing.is_simple_consumer_group) == ("Stable", False)
        assert not [g for g in admin.list_groups(states_filter=["Empty"]) if g.group_id == name]
        assert [g for g in admin.list_groups(types_filter=[GroupType.CLASSIC]) if g.group_id == name]
        with pytest.raises(errors.NonEmptyGroupError):
            admin.delete_consumer_groups([name])
        with pytest.raises(errors.UnknownMemberIdError):
            admin.remove_members_from_consumer_group(name, [MemberToRemove(group_instance_id="missing")])
        admin.remove_members_from_consumer_group(name, ["static"])
        assert not admin.describe_consumer_groups([name])[name].members
        admin.remove_members_from_consumer_group(name)
    until(lambda: admin.describe_consumer_groups([name])[name].state in ("Empty", "Dead"))


@scenario
def consumer_protocol_groups_are_described(admin: KafkaAdminClient, name: str, kind: str) -> None:
    if kind == "3.9":
        return  # disabled by default in 3.9
    create_topic(admin, name, 2)
    with KafkaConsumer(name, bootstrap_servers=address(admin), group_id=name, group_protocol="consumer") as consumer:
        until(lambda: consumer.poll(timeout_ms=100) or consumer.assignment())
        described = until(lambda: (g := admin.describe_consumer_groups([name])[name]).state == "Stable" and g)
        (member,) = described.members
        both = {TopicPartition(name, 0), TopicPartition(name, 1)}
        assert set(member.assignment) == set(member.target_assignment or ()) == both
        assert (described.group_type, described.group_epoch) == (GroupType.CONSUMER, member.member_epoch)
        assert described.coordinator_id == admin.describe_cluster().nodes[0].id
        assert name in [g.group_id for g in admin.list_groups(types_filter=[GroupType.CONSUMER])]
        assert name not in [g.group_id for g in admin.list_groups(types_filter=[GroupType.CLASSIC])]
        with pytest.raises(errors.GroupIdNotFoundError):
            admin.describe_classic_groups([name])


@scenario
def group_offsets_are_set_listed_reset_and_deleted(admin: KafkaAdminClient, name: str, kind: str) -> None:
    tp = create_topic_with_records(admin, name)
    until(lambda: not _fails(lambda: admin.alter_consumer_group_offsets(name, {tp: OffsetAndMetadata(3, "note")})))
    result = admin.list_consumer_group_offsets(name)[tp]
    assert (result.offset, result.metadata) == (3, "note")
    assert admin.list_consumer_group_offsets(name, [TopicPartition(name, 1)]) == {}
    assert admin.list_group_offsets([name])[name][tp].offset == 3
    assert admin.list_group_offsets(name)[name][tp].offset == 3
    assert list(admin.describe_groups(name)) == [name]
    assert admin.list_group_offsets({name: [tp]}, require_stable=True)[name][tp].offset == 3
    assert admin.reset_group_offsets(name, {tp: OffsetSpec.earliest()}) == {tp: 0}
    assert admin.reset_group_offsets(name, {tp: OffsetSpec.for_timestamp(1_800_000_000_000)}) == {tp: 5}
    admin.alter_group_offsets(name, {tp: 1})
    assert admin.list_consumer_group_offsets(name)[tp].offset == 1
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.alter_consumer_group_offsets(name, {TopicPartition(name, 9): 1})
    admin.delete_consumer_group_offsets(name, [tp])
    assert admin.list_consumer_group_offsets(name) == {}
    admin.alter_consumer_group_offsets(name, {tp: 2})
    admin.delete_consumer_groups([name])
    with pytest.raises(errors.GroupIdNotFoundError):
        admin.delete_groups([name])
    assert admin.describe_consumer_groups([name])[name].state == "Dead"
    with pytest.raises(errors.GroupIdNotFoundError):
        admin.describe_classic_groups([name])


def _fails(call: Callable[[], object]) -> bool:
    """Return whether a call times out: when a cluster has just started, the coordinator may not be available yet."""
    try:
        call()
    except errors.KafkaTimeoutError:
        return True
    return False


@scenario
def share_groups_are_described_and_deleted(admin: KafkaAdminClient, name: str, kind: str) -> None:
    tp = create_topic_with_records(admin, name)
    if kind == "3.9":
        with pytest.raises(errors.UnsupportedVersionError):
            admin.alter_share_group_offsets(name, {tp: 2})
        return
    admin.alter_share_group_offsets(name, {tp: 2})
    until(lambda: admin.list_share_group_offsets(name) == {tp: 2})
    assert admin.list_share_group_offsets(name, [tp]) == {tp: 2}
    assert name in [g.group_id for g in admin.list_share_groups()]
    described = admin.describe_share_groups([name])[name]
    assert (described.group_type, described.members) == (GroupType.SHARE, ())
    admin.delete_share_group_offsets(name, [tp.topic])
    admin.delete_share_groups([name])
    with pytest.raises(errors.GroupIdNotFoundError):
        admin.describe_share_groups([name])


@scenario
def streams_groups_are_described_and_deleted(admin: KafkaAdminClient, name: str, kind: str) -> None:
    tp = create_topic_with_records(admin, name)
    if kind == "3.9":
        with pytest.raises(errors.UnsupportedVersionError):
            admin.describe_streams_groups([name])
        return
    with StreamsThread(address(admin), name, name) as thread:
        described = admin.describe_streams_groups([name])[name]
        assert (described.state, described.topology_epoch) == (GroupState.STABLE, 0)
        assert [s.subtopology_id for s in described.subtopologies] == ["0", "1"]
        assert [m.member_id for m in described.members] == [thread.member_id]
        assert {s: list(p) for s, p in described.members[0].assignment.active.items()} == thread.tasks
        assert name in [g.group_id for g in admin.list_streams_groups()]
        with pytest.raises(errors.UnknownMemberIdError):
            admin.alter_streams_group_offsets(name, {tp: 2})
        with pytest.raises(errors.GroupSubscribedToTopicError):
            admin.delete_streams_group_offsets(name, [tp])
        with pytest.raises(errors.NonEmptyGroupError):
            admin.delete_streams_groups([name])
    admin.alter_streams_group_offsets(name, {tp: 2})
    assert {at: entry.offset for at, entry in admin.list_streams_group_offsets(name).items()} == {tp: 2}
    admin.delete_streams_group_offsets(name, [tp])
    admin.delete_streams_groups([name])
    with pytest.raises(errors.GroupIdNotFoundError):
        admin.describe_streams_groups([name])


# Transactions


@scenario
def transactions_are_described_and_fenced(admin: KafkaAdminClient, name: str, kind: str) -> None:
    tp = create_topic_with_records(admin, name, 1)
    with KafkaProducer(bootstrap_servers=address(admin), transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(name, b"open", partition=0).get(30)
        (listing,) = [t for t in admin.list_transactions() if t.transactional_id == name]
        assert listing.state == TransactionState.ONGOING
        output = admin.describe_transactions([name])[name]
        assert (output.state, output.producer_id) == ("Ongoing", listing.producer_id)
        assert output.topic_partitions == {tp}
        assert output.start_time_ms is not None
        states = admin.describe_producers([tp])[tp]
        (state,) = [s for s in states if s.producer_id == listing.producer_id]
        assert state.current_txn_start_offset == 1
        node = admin.describe_cluster().nodes[0].id
        assert admin.describe_producers([tp], broker_id=node)[tp] == states
        assert admin.list_transactions(state_filters=["Empty"], producer_id_filters=[listing.producer_id]) == []
        assert name not in [t.transactional_id for t in admin.find_hanging_transactions()]
        fenced = admin.fence_producers([name])[name]
        assert fenced.producer_epoch > output.producer_epoch or fenced.producer_id != output.producer_id
        with pytest.raises(errors.KafkaError):
            producer.commit_transaction()
    until(lambda: admin.describe_transactions([name])[name].state in ("CompleteAbort", "Empty"))
    with pytest.raises(errors.TransactionalIdNotFoundError):
        admin.describe_transactions([f"{name}-no"])


@scenario
def hanging_transaction_is_aborted(admin: KafkaAdminClient, name: str, kind: str) -> None:
    tp = create_topic_with_records(admin, name, 1)
    with KafkaProducer(bootstrap_servers=address(admin), transactional_id=name) as earlier:
        earlier.init_transactions()
    with KafkaProducer(bootstrap_servers=address(admin), transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(name, b"open", partition=0).get(30)
        (state,) = [s for s in admin.describe_producers([tp])[tp] if s.current_txn_start_offset is not None]
        epoch = state.coordinator_epoch if state.coordinator_epoch is not None else 0
        with pytest.raises((errors.InvalidProducerEpochError, errors.ProducerFencedError)):
            admin.abort_transaction(AbortTransactionSpec(tp, state.producer_id, state.producer_epoch - 1, epoch))
        admin.abort_transaction(AbortTransactionSpec(tp, state.producer_id, state.producer_epoch, epoch))
        (after,) = [s for s in admin.describe_producers([tp])[tp] if s.producer_id == state.producer_id]
        assert after.current_txn_start_offset is None
        admin.force_terminate_transaction(name)


# Users and ACLs


@scenario
def quotas_are_set_described_and_removed(admin: KafkaAdminClient, name: str, kind: str) -> None:
    entity = {"user": name, "client-id": None}
    admin.alter_client_quotas([ClientQuotaAlteration(entity, {"producer_byte_rate": 1024.0})], validate_only=True)
    user = ClientQuotaFilter((ClientQuotaFilterComponent("user", name),))
    assert admin.describe_client_quotas(user) == {}
    admin.alter_client_quotas(
        [ClientQuotaAlteration(entity, {"producer_byte_rate": 1024.0, "consumer_byte_rate": 2048.0})]
    )
    result = until(lambda: admin.describe_client_quotas(user))
    assert {frozenset(key): values for key, values in result.items()} == {
        frozenset(entity.items()): {"producer_byte_rate": 1024.0, "consumer_byte_rate": 2048.0}
    }
    both = (ClientQuotaFilterComponent("user", name), ClientQuotaFilterComponent("client-id"))
    assert admin.describe_client_quotas(ClientQuotaFilter(both, strict=True)) == result
    assert admin.describe_client_quotas(ClientQuotaFilter(both[:1], strict=True)) == {}
    any_user = ClientQuotaFilter((ClientQuotaFilterComponent("user", any_name=True),))
    assert set(result) <= set(admin.describe_client_quotas(any_user))
    assert set(result) <= set(admin.describe_client_quotas())
    removed = ClientQuotaAlteration(entity, {"producer_byte_rate": None, "consumer_byte_rate": None})
    admin.alter_client_quotas([removed])
    until(lambda: admin.describe_client_quotas(user) == {})
    with pytest.raises(errors.InvalidRequestError):
        admin.alter_client_quotas([ClientQuotaAlteration({"user": name}, {"no_such_rate": 1.0})])


@scenario
def scram_credentials_are_set_and_deleted(admin: KafkaAdminClient, name: str, kind: str) -> None:
    sha_256, sha_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
    # One at a time: Apache Kafka rejects two changes of one user in one request.
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, sha_256, "secret")])
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, sha_512, b"x", 8192)])
    result = until(lambda: len(f := admin.describe_user_scram_credentials(name)[name]) == 2 and f)
    assert set(result) == {ScramCredentialInfo(sha_256, 4096), ScramCredentialInfo(sha_512, 8192)}
    assert name in admin.describe_user_scram_credentials()
    admin.alter_user_scram_credentials([UserScramCredentialDeletion(name, sha_256)])
    until(lambda: admin.describe_user_scram_credentials([name])[name] == (ScramCredentialInfo(sha_512, 8192),))
    admin.alter_user_scram_credentials([UserScramCredentialDeletion(name, sha_512)])
    with pytest.raises(errors.ResourceNotFoundError, match=name):
        until(lambda: admin.describe_user_scram_credentials([name]) and None)
    failed: dict[Any, errors.KafkaError] = {}
    weak = UserScramCredentialUpsertion(name, sha_256, "secret", 1)
    admin.alter_user_scram_credentials([weak], errors=failed)
    assert type(failed[name]) is errors.UnacceptableCredentialError
    assert "secret" not in repr(weak)


@scenario
def acls_are_created_listed_and_deleted(admin: KafkaAdminClient, name: str, kind: str) -> None:
    if kind == OTTLA:
        for call in (admin.describe_acls, lambda: admin.delete_acls([ACLFilter()])):
            with pytest.raises(errors.SecurityDisabledError):
                call()
        return
    pattern = ResourcePattern(ResourceType.TOPIC, name)
    read = ACL(f"User:{name}", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)
    prefixed = ResourcePattern(ResourceType.GROUP, name, ACLResourcePatternType.PREFIXED)
    deny = ACL(f"User:{name}", "127.0.0.1", ACLOperation.ALL, ACLPermissionType.DENY, prefixed)
    assert admin.create_acls([read, deny]) == [read, deny]
    own_acls = ACLFilter(principal=f"User:{name}")
    until(lambda: set(admin.describe_acls(own_acls)) == {read, deny})
    assert {read, deny} <= set(admin.describe_acls())
    matching = ACLFilter(
        resource_pattern=ResourcePatternFilter(ResourceType.GROUP, f"{name}x", ACLResourcePatternType.MATCH)
    )
    assert admin.describe_acls(matching) == [deny]
    with pytest.raises(ValueError, match="one operation"):
        admin.create_acls([read._replace(operation=ACLOperation.ANY)])
    removed = admin.delete_acls([own_acls, ACLFilter(principal="User:missing")])
    assert [set(result) for result in removed.values()] == [{read, deny}, set()]
    until(lambda: admin.describe_acls(own_acls) == [])


@scenario
def delegation_tokens_require_authentication(admin: KafkaAdminClient, name: str, kind: str) -> None:
    expected_errors = (errors.DelegationTokenRequestNotAllowedError, errors.DelegationTokenAuthDisabledError)
    for call in (
        lambda: admin.create_delegation_token(["User:a"], 1000, owner="User:b"),
        lambda: admin.renew_delegation_token(b"hmac"),
        lambda: admin.expire_delegation_token(b"hmac"),
        lambda: admin.describe_delegation_token(["User:a"]),
    ):
        with pytest.raises(expected_errors):
            call()
    with pytest.raises(ValueError, match="User:name"):
        admin.create_delegation_token(["a"])


@scenario
def records_of_replicas_are_fetched(admin: KafkaAdminClient, name: str, kind: str) -> None:
    admin.create_topics([NewTopic(name, 2, 1)])
    with KafkaProducer(bootstrap_servers=address(admin)) as producer:
        producer.send(name, b"v", partition=1).get(10)
    (node,) = admin.describe_cluster().nodes
    empty, full = (TopicPartitionReplica(name, partition, node.id) for partition in range(2))
    fetched = admin.fetch_replicas({empty: 0, full: 0})
    assert (fetched[empty].high_watermark, fetched[full].high_watermark) == (0, 1)
    assert (fetched[empty].batches, fetched[full].batches[16]) == (b"", 2)
    failures: dict[object, errors.KafkaError] = {}
    assert admin.fetch_replicas({empty: 7}, errors=failures) == {}
    assert isinstance(failures[empty], errors.OffsetOutOfRangeError)
    with pytest.raises(errors.OffsetOutOfRangeError):
        admin.fetch_replicas({empty: 7})


# The cluster


@scenario
def cluster_is_described(admin: KafkaAdminClient, name: str, kind: str) -> None:
    cluster = admin.describe_cluster(include_authorized_operations=True)
    assert cluster.cluster_id
    assert cluster.controller is not None
    assert f"{cluster.nodes[0].host}:{cluster.nodes[0].port}" == address(admin)
    assert cluster.authorized_operations is not None
    assert ACLOperation.ALTER in cluster.authorized_operations
    versions = admin.api_versions()
    assert versions["Metadata"].max_version >= 12
    assert admin.api_versions(cluster.nodes[0].id) == versions


@scenario
def features_are_described_and_updated(admin: KafkaAdminClient, name: str, kind: str) -> None:
    node = admin.describe_cluster().nodes[0].id
    output = admin.describe_features()
    assert output.supported
    assert admin.describe_features(node).supported == output.supported
    assert admin.describe_features(send_request_to_controller=True).supported
    feature = "transaction.version" if "transaction.version" in output.supported else next(iter(output.supported))
    level = output.supported[feature].max_version
    admin.update_features({feature: FeatureUpdate(level)}, validate_only=True)
    with pytest.raises(errors.KafkaError):
        admin.update_features({feature: FeatureUpdate(level + 100)})
    with pytest.raises(errors.KafkaError):
        admin.update_features({"no.such.feature": FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)})


@scenario
def log_dirs_are_described_and_altered(admin: KafkaAdminClient, name: str, kind: str) -> None:
    tp = create_topic_with_records(admin, name)
    node = admin.describe_cluster().nodes[0].id
    every = admin.describe_log_dirs()
    ((path, described),) = every[node].items()
    assert described.error is None
    assert described.replicas[tp].size > 0
    assert described.total_bytes is not None
    assert described.total_bytes > 0
    ((_, only),) = admin.describe_log_dirs([tp], [node])[node].items()
    assert list(only.replicas) == [tp]
    replica = TopicPartitionReplica(name, 0, node)
    replica_info = admin.describe_replica_log_dirs([replica])[replica]
    assert (replica_info.current_log_dir, replica_info.future_log_dir) == (path, None)
    admin.alter_replica_log_dirs({replica: path})
    with pytest.raises(errors.LogDirNotFoundError):
        admin.alter_replica_log_dirs({replica: "/no/such/directory"})
    failed: dict[Any, errors.KafkaError] = {}
    assert set(admin.describe_log_dirs(brokers=[node, 999], timeout_ms=500, errors=failed)) == {node}
    assert set(failed) == {999}


@scenario
def metadata_quorum_is_described(admin: KafkaAdminClient, name: str, kind: str) -> None:
    if kind == OTTLA:
        for call in (
            admin.describe_metadata_quorum,
            lambda: admin.unregister_broker(7),
            lambda: admin.remove_raft_voter(7, uuid.uuid4()),
        ):
            with pytest.raises(errors.UnsupportedVersionError):
                call()
        return
    output = admin.describe_metadata_quorum()
    assert output.leader_id == 1
    assert [voter.replica_id for voter in output.voters] == [1]
    assert output.voters[0].log_end_offset > 0
    with pytest.raises(errors.KafkaError):
        admin.unregister_broker(777)
    with pytest.raises(errors.KafkaError):
        admin.add_raft_voter(9, uuid.uuid4(), [("CONTROLLER", "127.0.0.1", 1)], timeout_ms=2000)  # type: ignore[list-item]
    with pytest.raises(errors.KafkaError):
        admin.remove_raft_voter(9, uuid.uuid4(), timeout_ms=2000)

"""Flows of MirrorMaker between two brokers in this process."""

from __future__ import annotations

import asyncio
import uuid
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from tests.interop.eventually import eventually
from tests.mirroring import SECONDS, MirroringThread, mirroring, mm2_properties
from tests.whole_topic import whole_topic

from ottla import (
    Broker,
    ConfigResource,
    ConfigResourceType,
    ConsumerRecord,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewPartitions,
    NewTopic,
    OffsetAndMetadata,
    TopicPartition,
)
from ottla.aio import KafkaConsumer as AsyncKafkaConsumer
from ottla.backoff import ExponentialBackoff
from ottla.errors import (
    ConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    UnsupportedVersionError,
)
from ottla.mirror import copier, flow_mirror
from ottla.mirror.copier import Copier
from ottla.mirror.flow_config import MirrorProperties
from ottla.mirror.mirror_maker import MirrorMaker
from ottla.mirror.records import Checkpoint, Heartbeat, OffsetSync
from ottla.model import ACLOperation
from ottla.records.columns import BinaryColumn, HeadersColumn
from ottla.security.acl import ACL, ACLPermissionType, ResourcePattern, ResourceType


class Pair(NamedTuple):
    """A source and a target, and a source topic with two partitions for one test."""

    a: str
    b: str
    topic: str

    def properties(self, **configs: str) -> dict[str, str]:
        """Return the properties of a flow of this topic only, without heartbeats unless configured otherwise."""
        return mm2_properties(
            self.a, self.b, **{"topics": f"(.*\\.)?{self.topic}", "emit_heartbeats_enabled": "false", **configs}
        )

    def wait_copied(self, count: int, topic: str = "") -> list[ConsumerRecord]:
        """Wait until the copy has `count` records, and return them all."""
        records: list[ConsumerRecord] = []

        def complete() -> bool:
            try:
                records[:] = whole_topic(self.b, topic or f"A.{self.topic}", 2, isolation_level="read_committed")
            except KafkaError:  # the topic does not exist yet
                return False
            return len(records) >= count

        eventually(complete, SECONDS)
        return records


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[str, str]]:
    with Broker() as a, Broker() as b:
        yield a.bootstrap_servers, b.bootstrap_servers


@pytest.fixture
def pair(brokers: tuple[str, str]) -> Pair:
    topic = f"t{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=brokers[0]) as admin:
        admin.create_topics(
            [NewTopic(topic, 2, 1, topic_configs={"retention.ms": "1234567", "min.insync.replicas": "1"})]
        )
    return Pair(*brokers, topic)


def send(address: str, topic: str, values: Sequence[bytes | None], **more: object) -> None:
    with KafkaProducer(bootstrap_servers=address) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % 2, **more)  # type: ignore[arg-type]


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [str(number).encode() for number in range(first, first + count)]


def values(records: list[ConsumerRecord]) -> list[int]:
    return sorted(int(record.value) for record in records)


@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_records_are_copied_with_partition_timestamp_key_value_and_headers(pair: Pair, support: str) -> None:
    with KafkaProducer(bootstrap_servers=pair.a) as producer:
        for number in range(200):
            headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("ü", None)] if number // 50 == 1 else []
            key, value = (b"k%d" % number if number % 3 else None), (b"v%d" % number if number % 5 else None)
            producer.send(pair.topic, value, key, headers, number % 2, 1_700_000_000_000 + number)
    with mirroring(pair.properties(exactly_once_source_support=support)):
        copy = pair.wait_copied(200)
    source = whole_topic(pair.a, pair.topic, 2)
    assert [record[5:] for record in copy] == [record[5:] for record in source]
    assert [(r.partition, r.timestamp) for r in copy] == [(r.partition, r.timestamp) for r in source]


def test_partitions_and_configs_of_the_source_topic_are_synchronized(pair: Pair) -> None:
    remote = ConfigResource(ConfigResourceType.TOPIC, f"A.{pair.topic}")
    with KafkaAdminClient(bootstrap_servers=pair.a) as source, KafkaAdminClient(bootstrap_servers=pair.b) as target:

        def configs() -> dict[str, str | None]:
            described = target.describe_configs([remote], config_filter="modified")
            return {name: entry.value for name, entry in described[remote].items()}

        def partitions() -> int:
            return len(target.describe_topics([remote.name])[remote.name].partitions)

        with mirroring(pair.properties()):
            eventually(lambda: remote.name in target.list_topics(), SECONDS)
            assert configs() == {"retention.ms": "1234567"}
            assert partitions() == 2
            changes = {"retention.ms": None, "segment.bytes": "1048576"}
            source.alter_configs([ConfigResource(ConfigResourceType.TOPIC, pair.topic, changes)])
            source.create_partitions({pair.topic: NewPartitions(3)})
            eventually(lambda: configs() == {"segment.bytes": "1048576"}, SECONDS)
            eventually(lambda: partitions() == 3, SECONDS)
            with KafkaProducer(bootstrap_servers=pair.a) as producer:
                producer.send(pair.topic, b"new", partition=2)
            eventually(lambda: whole_topic(pair.b, remote.name, 3), SECONDS)


def test_flows_in_both_directions_do_not_copy_records_back(pair: Pair) -> None:
    with KafkaAdminClient(bootstrap_servers=pair.b) as admin:
        admin.create_topics([NewTopic(pair.topic, 2, 1)])
    send(pair.a, pair.topic, numbers(10))
    send(pair.b, pair.topic, numbers(10, first=100))
    with mirroring(pair.properties(B__A_enabled="true")):
        assert values(pair.wait_copied(10)) == list(range(10))
        reverse = Pair(pair.b, pair.a, pair.topic)
        assert values(reverse.wait_copied(10, f"B.{pair.topic}")) == list(range(100, 110))
        with KafkaAdminClient(bootstrap_servers=pair.a) as a, KafkaAdminClient(bootstrap_servers=pair.b) as b:
            topics = [topic for topic in (*a.list_topics(), *b.list_topics()) if topic.endswith(pair.topic)]
    assert sorted(topics) == sorted([pair.topic, pair.topic, f"A.{pair.topic}", f"B.{pair.topic}"])


@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_restart_continues_after_the_last_copied_record(pair: Pair, support: str) -> None:
    properties = pair.properties(exactly_once_source_support=support)
    for first in (0, 50):
        send(pair.a, pair.topic, numbers(50, first))
        with mirroring(properties):
            pair.wait_copied(first + 50)
    assert values(pair.wait_copied(100)) == list(range(100))


@pytest.mark.parametrize("moment", ["before the offsets", "after the commit"])
def test_failed_session_copies_no_records_twice(pair: Pair, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    send(pair.a, pair.topic, numbers(50))
    method = "_send_offsets" if moment == "before the offsets" else "_completed"
    original, failures = getattr(Copier, method), [1, 2]

    async def fail(self: Copier, *arguments: object) -> None:
        if failures:
            failures.pop()
            await self._producer.flush()
            raise KafkaTimeoutError(f"failed {moment}")
        await original(self, *arguments)

    monkeypatch.setattr(Copier, method, fail)
    monkeypatch.setattr(flow_mirror, "BACKOFF", ExponentialBackoff(0.01, 0.1))
    with mirroring(pair.properties()) as thread:
        eventually(lambda: thread.maker.flows[0].progress.lag == 0, SECONDS)
        send(pair.a, pair.topic, numbers(10, first=50))
        pair.wait_copied(60)
    assert not failures
    assert values(pair.wait_copied(60)) == list(range(60))


def test_session_does_not_begin_again_if_the_offsets_topic_is_unknown(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that has just started may not know it yet."""
    send(pair.a, pair.topic, numbers(50))
    complete, look_up = Copier._completed, AsyncKafkaConsumer.partitions_for_topic
    failures, unknown = [1], [1]

    async def fail(self: Copier, *arguments: Any) -> None:
        await complete(self, *arguments)
        if failures:
            failures.pop()
            raise KafkaTimeoutError("failed")

    async def partitions_for_topic(self: AsyncKafkaConsumer, topic: str) -> set[int] | None:
        if topic.startswith("mm2-offsets.") and not failures and unknown:
            unknown.pop()
            return None
        return await look_up(self, topic)

    monkeypatch.setattr(Copier, "_completed", fail)
    monkeypatch.setattr(AsyncKafkaConsumer, "partitions_for_topic", partitions_for_topic)
    monkeypatch.setattr(flow_mirror, "BACKOFF", ExponentialBackoff(0.01, 0.1))
    with mirroring(pair.properties()):
        pair.wait_copied(50)
        send(pair.a, pair.topic, numbers(10, first=50))
        pair.wait_copied(60)
    assert not unknown
    assert values(pair.wait_copied(60)) == list(range(60))


def test_header_key_that_is_not_utf_8_is_copied_with_replacement_characters() -> None:
    keys = BinaryColumn(memoryview(array("i", [0, 2])), b"a\xff")
    column = HeadersColumn(memoryview(array("i", [0, 1])), keys, BinaryColumn(memoryview(array("i", [0, 1])), b"1"))
    assert copier._headers(column, 1) == [[("a\ufffd", b"1")]]


def test_topic_acls_are_copied_without_write_permission(pair: Pair) -> None:
    secured = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
    resource = ResourcePattern(ResourceType.TOPIC, "visits")

    def acl(name: str, operation: ACLOperation, kind: ACLPermissionType = ACLPermissionType.ALLOW) -> ACL:
        return ACL(f"User:{name}", "*", operation, kind, resource)

    with Broker(secured) as a, Broker(secured) as b:
        with KafkaAdminClient(bootstrap_servers=a.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("visits", 1, 1)])
            all_topics = acl("every", ACLOperation.READ)._replace(resource_pattern=resource._replace(resource_name="*"))
            writers = [acl("writer", ACLOperation.WRITE), acl("owner", ACLOperation.ALL)]
            denied = acl("other", ACLOperation.WRITE, ACLPermissionType.DENY)
            admin.create_acls([acl("reader", ACLOperation.READ), *writers, denied, all_topics])
        properties = mm2_properties(a.bootstrap_servers, b.bootstrap_servers, topics="visits")
        with mirroring(properties), KafkaAdminClient(bootstrap_servers=b.bootstrap_servers) as admin:
            eventually(admin.describe_acls, SECONDS)
            acls = admin.describe_acls()
    copies = [acl("other", ACLOperation.WRITE, ACLPermissionType.DENY)]
    copies += [acl(name, ACLOperation.READ) for name in ("owner", "reader")]
    remote = resource._replace(resource_name="A.visits")
    assert sorted(acls) == sorted(copy._replace(resource_pattern=remote) for copy in copies)


def test_records_of_aborted_transactions_are_not_copied(pair: Pair) -> None:
    with KafkaProducer(bootstrap_servers=pair.a, transactional_id=pair.topic) as producer:
        producer.init_transactions()
        for number in range(20):
            producer.begin_transaction()
            producer.send(pair.topic, str(number).encode(), partition=number % 2)
            if number % 4 < 2:
                producer.commit_transaction()
            else:
                producer.flush()
                producer.abort_transaction()
    with mirroring(pair.properties()) as thread:
        assert values(pair.wait_copied(10)) == [n for n in range(20) if n % 4 < 2]
        eventually(lambda: thread.maker.flows[0].progress.lag == 0, SECONDS)


def without_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: Copier, configs: object, clients: object) -> None:
        raise UnsupportedVersionError("InitProducerId is not supported")

    monkeypatch.setattr(Copier, "_start_transactional", fail)


def test_target_without_transactions_is_copied_to_at_least_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    without_transactions(monkeypatch)
    send(pair.a, pair.topic, numbers(10))
    with mirroring(pair.properties()):
        assert values(pair.wait_copied(10)) == list(range(10))
    assert "the target does not support transactions; copying with at-least-once delivery" in caplog.text


def test_target_without_transactions_is_rejected_if_exactly_once_is_enabled(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_transactions(monkeypatch)
    thread = MirroringThread(pair.properties(exactly_once_source_support="enabled"))
    thread.begin()
    thread.join(SECONDS)
    assert isinstance(thread.error, UnsupportedVersionError)


def test_replication_factor_above_the_number_of_brokers_names_the_config(pair: Pair) -> None:
    # With this separator its internal topics do not exist yet.
    more = {"offset-syncs.topic.replication.factor": "3", "replication.policy.separator": "-"}
    thread = MirroringThread({**pair.properties(), **more})
    thread.begin()
    thread.join(SECONDS)
    assert isinstance(thread.error, ConfigurationError)
    assert "offset-syncs.topic.replication.factor: cannot create topic mm2-offset-syncs-B-internal on A" in str(
        thread.error
    )


def test_second_process_takes_over_and_fences_the_first(pair: Pair) -> None:
    send(pair.a, pair.topic, numbers(10))
    first = MirroringThread(pair.properties())
    first.begin()
    pair.wait_copied(10)
    with mirroring(pair.properties()) as second:
        eventually(lambda: second.maker.flows[0].progress.lag == 0, SECONDS)
        send(pair.a, pair.topic, numbers(10, first=10))
        assert values(pair.wait_copied(20)) == list(range(20))
        with pytest.raises(ProducerFencedError, match="A->B: another process copies this flow"):
            first.stop()


async def test_failed_flow_lets_the_other_flows_commit() -> None:
    maker = MirrorMaker(MirrorProperties(mm2_properties("a:1", "b:1", B__A_enabled="true")))
    maker._clusters.clear()  # not connected
    first, second = maker.flows
    in_transaction, committed = asyncio.Event(), False

    async def nothing() -> None:
        pass

    async def fail() -> None:
        await in_transaction.wait()
        raise ExceptionGroup("of its tasks", [ProducerFencedError("another process copies this flow")])

    async def commit_when_stopped() -> None:
        nonlocal committed
        in_transaction.set()
        await second._stopped.wait()
        await asyncio.sleep(0)
        committed = True

    for flow, run in ((first, fail), (second, commit_when_stopped)):
        flow.prepare, flow.run = nothing, run  # type: ignore[method-assign]
    with pytest.raises(ProducerFencedError):
        await asyncio.wait_for(maker.run(), SECONDS)
    assert committed


@pytest.mark.parametrize("location", ["source", "target"])
def test_group_offsets_are_translated_and_committed_for_inactive_groups(pair: Pair, location: str) -> None:
    idle, active = f"idle-{pair.topic}", f"active-{pair.topic}"
    send(pair.a, pair.topic, numbers(10))
    zero, one = TopicPartition(pair.topic, 0), TopicPartition(pair.topic, 1)
    for group in (idle, active):
        with KafkaConsumer(bootstrap_servers=pair.a, group_id=group) as consumer:
            consumer.commit({zero: OffsetAndMetadata(5, "note"), one: OffsetAndMetadata(0)})
    configs = {"groups": f".*{pair.topic}", "sync_group_offsets_enabled": "true", "offset.lag.max": "0"}
    properties = {**pair.properties(**configs), "offset-syncs.topic.location": location}
    with (
        KafkaConsumer(bootstrap_servers=pair.b, group_id=active) as member,
        KafkaAdminClient(bootstrap_servers=pair.b) as admin,
    ):
        member.subscribe([f"other-{pair.topic}"])
        eventually(lambda: member.poll(100) or admin.describe_groups([active])[active].members, SECONDS)
        with mirroring(properties):
            eventually(lambda: len(admin.list_consumer_group_offsets(idle)) == 2, SECONDS)
        committed = admin.list_consumer_group_offsets(idle)
        assert not admin.list_consumer_group_offsets(active)
    records = whole_topic(pair.b, "A.checkpoints.internal", 1)
    checkpoints = [c for c in (Checkpoint.parse(r.key, r.value) for r in records) if c.group == active]
    for remote, position in ((TopicPartition(f"A.{pair.topic}", 0), 5), (TopicPartition(f"A.{pair.topic}", 1), 0)):
        assert committed[remote].offset == position
        assert [(c.upstream, c.downstream) for c in checkpoints if c.partition == remote] == [(position, position)]
    assert committed[TopicPartition(f"A.{pair.topic}", 0)].metadata == "note"
    address, topic = (
        (pair.a, "mm2-offset-syncs.B.internal") if location == "source" else (pair.b, "mm2-offset-syncs.A.internal")
    )
    syncs = [OffsetSync.parse(r.key, r.value) for r in whole_topic(address, topic, 1)]
    assert OffsetSync(zero, 4, 4) in syncs


def test_heartbeats_of_both_directions_are_emitted_and_copied(pair: Pair) -> None:
    with mirroring(pair.properties(emit_heartbeats_enabled="true")):

        def heartbeats(address: str, topic: str) -> set[tuple[str, str]]:
            try:
                records = whole_topic(address, topic, 1)
            except KafkaError:
                return set()
            return {Heartbeat.parse(record.key, record.value)[:2] for record in records}

        eventually(lambda: heartbeats(pair.b, "heartbeats") == {("A", "B")}, SECONDS)
        eventually(lambda: heartbeats(pair.b, "A.heartbeats") == {("B", "A")}, SECONDS)


def test_identity_policy_keeps_topic_names(pair: Pair) -> None:
    send(pair.a, pair.topic, numbers(10))
    with mirroring(pair.properties(replication_policy_class="identity")):
        assert values(pair.wait_copied(10, pair.topic)) == list(range(10))

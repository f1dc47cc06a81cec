"""A cluster of controllers in one process: requests are method calls, and the metadata store is in memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from tests.unit.cluster.shared_tree import Session, SharedTree

from ottla.cluster.broker import registration
from ottla.cluster.broker.lifecycle import BrokerLifecycle
from ottla.cluster.controller import partition_states, reassignment_rules
from ottla.cluster.controller.leader_election import Candidates, Reason
from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import BrokerImage, PartitionImage
from ottla.cluster.image.features import highest
from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import Create, Delete, MetadataStoreTimeoutError, Operation, Set
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.broker.listener_config import Endpoint
from ottla.errors import (
    BrokerConnectionError,
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidReplicaAssignmentError,
    InvalidUpdateVersionError,
    KafkaError,
    NoReassignmentInProgressError,
    NotControllerError,
    StartupError,
    TopicAlreadyExistsError,
    code_of,
)
from ottla.model import TopicPartition
from ottla.protocol.apis import BY_KEY
from ottla.protocol.message import decode, encode
from ottla.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SECONDS = 10


class Broker:
    """A broker of the cluster, without logs."""

    def __init__(self, cluster: Cluster, broker_id: int, **options: Any) -> None:
        self.id = broker_id
        self.session: Session = cluster.tree.session()
        self.deleted: list[TopicPartition] = []
        self.stopped: list[TopicPartition] = []
        self.reachable = True
        self.broken: set[TopicPartition] = set()
        self._stops: list[TopicPartition] = []
        self.member = BrokerLifecycle(
            self.session,
            BrokerConfig({name.replace("_", "."): value for name, value in options.items()}),
            broker_id,
            stop=self.stop,
            unclean_allowed=lambda _, configs: configs.get("unclean.leader.election.enable") == "true",
        )
        self.member.interbroker = cluster  # type: ignore[assignment]
        self.image = BrokerImage(broker_id, (Endpoint("PLAINTEXT", "127.0.0.1", 9000 + broker_id),))

    @property
    def controller(self) -> Any:
        return self.member.controller

    def stop(self, tp: TopicPartition, delete: bool) -> None:
        (self.deleted if delete else self.stopped).append(tp)

    async def start(self) -> None:
        self.session.on_new_session(self.member.rejoin)
        await self.member.prepare(None)
        await self.member.register(self.image)
        await self.member.join()

    def state(self, tp: TopicPartition = T0) -> PartitionImage:
        partition = self.member.metadata_cache.image.partition(tp)
        assert partition is not None
        return partition

    def offline_replicas(self) -> list[int]:
        return self.member.metadata_cache.image.offline_replicas(self.state())

    async def handle(self, request: Any) -> Any:
        """Handle a request like the broker's request handlers."""
        requests = self.member.controller_requests
        try:
            if isinstance(request, LeaderAndIsrRequest):
                await requests.leader_and_isr(request)
                return LeaderAndIsrResponse(topics=[self.outcomes(topic) for topic in request.topic_states])
            if isinstance(request, UpdateMetadataRequest):
                await requests.update_metadata(request)
                return UpdateMetadataResponse()
        except KafkaError as error:
            return type(request).RESPONSE(error_code=code_of(error))
        if isinstance(request, ControlledShutdownRequest):
            left = await self.controller.controlled_shutdown(request.broker_id, request.broker_epoch)
            return ControlledShutdownResponse(
                remaining_partitions=[
                    RemainingPartition(topic_name=tp.topic, partition_index=tp.partition) for tp in left
                ]
            )
        assert isinstance(request, StopReplicaRequest)
        for topic in request.topic_states:
            for p in topic.partition_states:
                self.stop(TopicPartition(topic.topic_name, p.partition_index), p.delete_partition)
        return StopReplicaResponse()

    def outcomes(self, topic: LeaderAndIsrTopicState) -> LeaderAndIsrTopicError:
        indexes = [p.partition_index for p in topic.partition_states]
        codes = {i: 56 if TopicPartition(topic.topic_name, i) in self.broken else 0 for i in indexes}
        errors = [LeaderAndIsrPartitionError(partition_index=i, error_code=code) for i, code in codes.items()]
        return LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds in this broker's image."""
        changed = asyncio.Event()

        async def on_change(before: object, after: object) -> None:
            changed.set()

        self.member.metadata_cache.on_change(on_change)
        while not condition():
            await changed.wait()
            changed.clear()


class Cluster:
    """Brokers over one tree; stands in for their connections."""

    def __init__(self) -> None:
        self.tree = SharedTree()
        self.brokers: dict[int, Broker] = {}

    async def add(self, broker_id: int, **options: Any) -> Broker:
        broker = self.brokers[broker_id] = Broker(self, broker_id, **options)
        await broker.start()
        return broker

    async def send(self, broker_id: int, request: Any, version: int, *, timeout: float, purpose: str = "") -> Any:
        broker = self.brokers[broker_id]
        await asyncio.sleep(0)
        if not broker.reachable:
            raise BrokerConnectionError("cut off")
        data = bytearray()
        encode(request, version, data)
        return await broker.handle(decode(BY_KEY[request.API_KEY].request, memoryview(data), version, 0))

    def close(self) -> None:
        """Like `InterBrokerClient.close`."""

    async def kill(self, broker_id: int) -> None:
        """Crash a broker: it sends nothing more, and its session ends."""
        broker = self.brokers.pop(broker_id)
        broker.session.pause()
        broker.session.expire()


def run(test: Callable[[Cluster], Awaitable[None]]) -> None:
    async def inner() -> None:
        cluster = Cluster()
        try:
            await test(cluster)
        finally:
            for broker in cluster.brokers.values():
                await broker.member.close()

    asyncio.run(asyncio.wait_for(inner(), SECONDS))


async def three(cluster: Cluster, **options: Any) -> tuple[Broker, Broker, Broker]:
    one, two, three = [await cluster.add(broker_id, **options) for broker_id in (1, 2, 3)]
    await one.until(lambda: len(one.member.metadata_cache.image.brokers) == 3)
    return one, two, three


def test_broker_with_an_id_already_in_use_leaves_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "SESSION_SLACK_SECONDS", 0.05)

    async def test(cluster: Cluster) -> None:
        one, two, three_ = await three(cluster)
        is_replaced = asyncio.Event()
        reasons: list[str] = []

        def on_replaced(reason: str) -> None:
            reasons.append(reason)
            is_replaced.set()

        three_.member._on_replaced = on_replaced
        three_.session.pause()
        three_.session.expire()
        await one.until(lambda: 3 not in one.member.metadata_cache.image.brokers)
        other = await cluster.add(3)
        three_.session.resume()
        await is_replaced.wait()
        assert "/brokers/ids/3 belongs to another running broker" in reasons[0]
        await three_.member.controlled_shutdown()  # does not move the leaders of the other broker
        assert 3 not in one.member.metadata_cache.image.shutting_down
        await cluster.kill(1)
        await cluster.kill(2)
        await other.until(lambda: other.controller.is_active)
        assert not three_.controller.is_active
        await three_.member.close()

    run(test)


def test_first_broker_is_the_controller_and_others_raise_not_controller() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, three_ = await three(cluster)
        assert [b.controller.is_active for b in (one, two, three_)] == [True, False, False]
        assert two.member.metadata_cache.image.controller_id == 1
        with pytest.raises(NotControllerError):
            await two.controller.topics.create("t", [[1, 2]], {})

    run(test)


def test_created_topic_is_in_every_image() -> None:
    async def test(cluster: Cluster) -> None:
        one, *others = await three(cluster)
        created = await one.controller.topics.create("t", [[1, 2, 3], [2, 3, 1]], {"retention.ms": "1000"})
        for broker in others:
            topic = broker.member.metadata_cache.image.topics["t"]
            assert (topic.id, topic.configs) == (created.id, {"retention.ms": "1000"})
            assert topic.partitions == created.partitions

    run(test)


def test_topics_created_together_make_one_image() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        images = one.member.metadata_cache.number
        names = [f"t{number}" for number in range(300)]  # more than one transaction
        await asyncio.gather(*(one.controller.topics.create(name, [[1, 2, 3]], {}) for name in names))
        assert one.member.metadata_cache.number == images + 1
        assert sorted(two.member.metadata_cache.image.topics) == sorted(names)

    run(test)


def test_topic_that_exists_does_not_affect_those_created_with_it() -> None:
    async def test(cluster: Cluster) -> None:
        one, *_ = await three(cluster)
        create = one.controller.topics.create
        await create("old", [[1]], {})
        image = one.member.metadata_cache.image
        one.member.metadata_cache.image = image.with_topics({})  # as if a tool had created the topic a moment ago
        names = ["a", "old", "b", "a"]
        results = await asyncio.gather(*(create(name, [[1]], {}) for name in names), return_exceptions=True)
        assert [isinstance(result, TopicAlreadyExistsError) for result in results] == [False, True, False, True]
        assert {"a", "b"} <= one.member.metadata_cache.image.topics.keys()

    run(test)


def test_dead_leader_is_replaced_by_the_next_in_sync_replica() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, three_ = await three(cluster)
        await one.controller.topics.create("t", [[3, 2, 1]], {})
        await cluster.kill(3)
        await two.until(lambda: two.state().leader == 2)
        assert two.state() == one.state()
        assert (two.state().isr, two.state().leader_epoch) == ((2, 1), 1)

    run(test)


def test_dead_controller_is_replaced_and_leaders_are_elected() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, three_ = await three(cluster)
        await one.controller.topics.create("t", [[1, 2, 3]], {})
        await cluster.kill(1)
        await two.until(lambda: two.state().leader == 2)
        await three_.until(lambda: three_.state().leader == 2)
        assert sum(b.controller.is_active for b in (two, three_)) == 1
        epoch = cluster.tree.get(znodes.CONTROLLER_EPOCH)
        assert epoch is not None
        assert epoch.value == b"2"

    run(test)


def test_paused_controller_is_fenced() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        one.session.pause()
        late = asyncio.ensure_future(one.controller.topics.create("late", [[1]], {}))
        await asyncio.sleep(0)
        one.session.expire()
        await two.until(lambda: two.member.metadata_cache.image.controller_id != 1)
        one.session.resume()
        with pytest.raises(NotControllerError):
            await late
        await one.until(lambda: one.member.metadata_cache.image.controller_id != 1)
        assert cluster.tree.get("/brokers/topics/late") is None

    run(test)


class DelayedResult:
    """Executes the next write of a session, but holds its result back until it is released."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._multi = session.multi
        self.written = asyncio.Event()
        self.release = asyncio.Event()
        session.multi = self  # type: ignore[method-assign]

    async def __call__(self, operations: Any) -> None:
        self._session.multi = self._multi  # type: ignore[method-assign]
        await self._multi(operations)
        self.written.set()
        await self.release.wait()


def test_replaced_controller_publishes_nothing_older_than_its_successor() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        await one.controller.topics.create("t", [[2, 3, 1]], {})
        delayed = DelayedResult(one.session)
        late = asyncio.ensure_future(one.controller.isr_updates.alter_partition(2, T0, one.state(), (2, 3)))
        await delayed.written.wait()
        one.session.expire()
        one.session.resume()
        await two.until(lambda: two.member.metadata_cache.image.controller_id != 1)
        await two.until(lambda: 1 in two.member.metadata_cache.image.brokers)
        await cluster.brokers[two.member.metadata_cache.image.controller_id].controller.elect(Reason.UNCLEAN)
        await cluster.brokers[two.member.metadata_cache.image.controller_id].controller.reassignments.reassign(
            T0, [3, 1, 2]
        )
        newest = two.state()
        await one.until(lambda: one.state() == newest)
        delayed.release.set()
        with pytest.raises(NotControllerError):
            await late
        assert one.state() == newest
        assert not one.controller.is_active

    run(test)


def test_write_of_a_cancelled_request_is_applied() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        await one.controller.topics.create("t", [[2, 3, 1]], {})
        before = one.state()
        delayed = DelayedResult(one.session)
        update = asyncio.ensure_future(one.controller.isr_updates.alter_partition(2, T0, before, (2, 3)))
        await delayed.written.wait()
        update.cancel()  # the leader's connection is lost
        await asyncio.wait([update])
        assert one.state() == before
        state = await one.controller.isr_updates.alter_partition(2, T0, before, (2, 3))
        assert state.state_version == before.state_version + 1
        await two.until(lambda: two.state().isr == (2, 3))

    run(test)


def test_term_that_cannot_start_does_not_block_other_controllers() -> None:
    async def test(cluster: Cluster) -> None:
        one = cluster.brokers[1] = Broker(cluster, 1)
        children = one.session.children

        async def fail_once(path: str, watch: Any = None) -> list[str]:
            if path == znodes.BROKER_IDS and one.member.metadata_cache.image.brokers:
                one.session.children = children  # type: ignore[method-assign]
                raise MetadataStoreTimeoutError
            return await children(path, watch)

        one.session.children = fail_once  # type: ignore[method-assign]
        await one.start()
        assert one.controller.is_active

    run(test)


def test_feature_levels_reach_every_broker() -> None:
    async def test(cluster: Cluster) -> None:
        brokers = await three(cluster)
        for level in (1, 2):
            await brokers[0].controller.set_features({"transaction.version": level})
            images = [broker.member.metadata_cache for broker in brokers]
            await until(lambda: {cache.image.features["transaction.version"] for cache in images} == {level})  # noqa: B023
            assert {cache.image.features_epoch for cache in images} == {level}
        late = await cluster.add(4)
        assert late.member.metadata_cache.image.features == brokers[0].controller.image.features
        assert late.member.metadata_cache.image.features_epoch == 2

    run(test)


MALFORMED = (b"", b"{", b"[]", b"null", b"1", b'{"features": 1}', b'{"features": {"a": 1}}', b"\xff", b"[" * 100_000)
READ_PATHS = (
    znodes.FEATURE,
    f"{znodes.BROKER_IDS}/9",
    f"{znodes.TOPICS}/x",
    znodes.partition_state("t", 0),
    f"{znodes.CONFIG_TOPICS}/t",
    "/config/brokers/0",
)


@pytest.mark.parametrize("path", READ_PATHS)
def test_malformed_znode_keeps_no_broker_from_becoming_the_controller(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(cluster: Cluster) -> None:
        first = await cluster.add(0)
        await first.controller.topics.create("t", [(0,)], {})
        for value in MALFORMED:
            exists = await first.session.get(path) is not None
            await first.session.multi([Set(path, value) if exists else Create(path, value)])
            second = await cluster.add(1)
            await cluster.kill(0)
            await second.until(lambda: second.controller.is_active)  # noqa: B023
            levels = second.member.metadata_cache.image.features
            await cluster.kill(1)
            first = await cluster.add(0)
            assert levels == highest()

    run(test)
    assert "alformed" in caplog.text


def test_malformed_controller_znode_is_logged_once_and_can_be_deleted(caplog: pytest.LogCaptureFixture) -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        for value in MALFORMED[:-1]:
            await one.session.multi([Set(znodes.CONTROLLER, value)])
            await until(lambda: caplog.text.count("Delete it") == 2)
            caplog.clear()
        await one.session.multi([Delete(znodes.CONTROLLER)])
        await until(lambda: any(broker.controller.is_active for broker in cluster.brokers.values()))

    with caplog.at_level(logging.ERROR):
        run(test)
    assert not caplog.records


def test_last_in_sync_replica_stays_in_the_isr_while_its_broker_is_dead() -> None:
    async def test(cluster: Cluster) -> None:
        one, _, _ = await three(cluster)
        await one.controller.topics.create("t", [[2]], {})
        await cluster.kill(2)
        await one.until(lambda: one.state().leader == -1)
        assert one.state().isr == (2,)
        await cluster.add(2)
        await one.until(lambda: one.state().leader == 2)

    run(test)


def has_partition(node: Broker, tp: TopicPartition) -> bool:
    return node.member.metadata_cache.image.partition(tp) is not None


def test_unclean_leader_is_elected_only_if_the_topic_allows_it() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        for name, allowed in (("t", "false"), ("u", "true")):
            await one.controller.topics.create(name, [[2, 1]], {"unclean.leader.election.enable": allowed})
            tp = TopicPartition(name, 0)
            await two.until(partial(has_partition, two, tp))
            await one.controller.isr_updates.alter_partition(2, tp, one.state(tp), (2,))
        await cluster.kill(2)
        u0 = TopicPartition("u", 0)
        await one.until(lambda: one.state(u0).leader == 1)
        assert (one.state(u0).isr, one.state().leader) == ((1,), -1)
        assert one.controller.unclean_elections == 1
        elected = await one.controller.elect(Reason.UNCLEAN, [T0])
        assert elected[T0].leader == 1
        assert one.controller.unclean_elections == 2

    run(test)


def test_unclean_election_without_a_live_replica_is_not_counted() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        await one.controller.topics.create("t", [[2]], {"unclean.leader.election.enable": "true"})
        await two.until(partial(has_partition, two, T0))
        await cluster.kill(2)
        await one.until(lambda: one.state().leader == -1)
        assert one.controller.unclean_elections == 0

    run(test)


def test_alter_partition_of_an_outdated_leader_is_rejected() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        await one.controller.topics.create("t", [[2, 1, 3]], {})
        old = two.state()
        now = await one.controller.isr_updates.alter_partition(2, T0, old, (2, 1))
        assert (now.isr, now.leader_epoch, now.state_version) == ((2, 1), 0, 1)
        await two.until(lambda: two.state().isr == (2, 1))
        with pytest.raises(InvalidUpdateVersionError):
            await one.controller.isr_updates.alter_partition(2, T0, old, (2, 3))
        await one.controller.elect(Reason.SHUTDOWN, [])
        await cluster.kill(3)
        await one.until(lambda: 3 not in one.member.metadata_cache.image.brokers)
        with pytest.raises(IneligibleReplicaError):
            await one.controller.isr_updates.alter_partition(2, T0, one.state(), (2, 1, 3))
        await cluster.kill(2)
        await one.until(lambda: one.state().leader == 1)
        with pytest.raises(KafkaError):
            await one.controller.isr_updates.alter_partition(1, T0, old, (1,))

    run(test)


def test_controlled_shutdown_moves_leaders_and_keeps_the_broker_out_of_the_isr() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        await one.controller.topics.create("t", [[2, 1], [1, 2]], {})
        epoch = one.member.metadata_cache.image.brokers[2].epoch
        assert await one.controller.controlled_shutdown(2, epoch) == []
        assert [(p.leader, p.isr) for p in two.member.metadata_cache.image.topics["t"].partitions] == [
            (1, (1,)),
            (1, (1,)),
        ]
        assert two.stopped == [T0, TopicPartition("t", 1)]
        with pytest.raises(IneligibleReplicaError):
            await one.controller.isr_updates.alter_partition(1, T0, one.state(), (1, 2))

    run(test)


def test_controlled_shutdown_of_all_brokers_does_not_wait() -> None:
    async def stop(broker: Broker) -> None:
        await broker.member.controlled_shutdown()
        await broker.member.close()
        await broker.session.close()

    async def test(cluster: Cluster) -> None:
        brokers = await three(cluster, controlled_shutdown_retry_backoff_ms=2 * SECONDS * 1000)
        await brokers[0].controller.topics.create("t", [[2, 3, 1], [3, 1, 2], [1, 2, 3]], {})
        await asyncio.gather(*map(stop, brokers))

    run(test)


def test_deleted_topic_is_removed_after_its_last_replica() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, three_ = await three(cluster)
        await one.controller.topics.create("t", [[1, 2, 3]], {})
        await cluster.kill(3)
        await one.until(lambda: 3 not in one.member.metadata_cache.image.brokers)
        await one.controller.topics.delete("t")
        await two.until(lambda: "t" not in two.member.metadata_cache.image.topics)
        assert one.deleted == two.deleted == [T0]
        with pytest.raises(TopicAlreadyExistsError):
            await one.controller.topics.create("t", [[1]], {})
        back = await cluster.add(3)
        await one.until(lambda: not one.member.metadata_cache.image.deleting)
        assert back.deleted == [T0]
        assert cluster.tree.children("/brokers/topics") == cluster.tree.children("/admin/delete_topics") == []

    run(test)


def test_topic_is_deleted_after_each_replica_of_a_broker_although_it_has_deleted_a_reassigned_one() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, three_ = await three(cluster)
        await one.controller.topics.create("t", [[2, 3], [2, 3]], {})
        handle, answers = three_.handle, asyncio.Event()

        async def answer_late(request: Any) -> Any:
            response = await handle(request)
            if isinstance(request, StopReplicaRequest):
                await answers.wait()
            return response

        three_.handle = answer_late  # type: ignore[method-assign]
        reassignment = asyncio.ensure_future(one.controller.reassignments.reassign(T0, [2]))
        await until(lambda: three_.deleted == [T0])
        deletion = asyncio.ensure_future(one.controller.topics.delete("t"))
        await until(lambda: len(two.deleted) == 2)
        await asyncio.sleep(0.01)
        answers.set()
        await until(lambda: not one.member.metadata_cache.image.deleting)
        assert three_.deleted == [T0, T1]
        await asyncio.gather(reassignment, deletion)

    run(test)


def test_new_topic_has_no_offline_replicas_of_a_deleted_one() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        await one.controller.topics.create("t", [[2, 1]], {})
        two.broken = {T0}
        await two.member.report_offline_replicas([T0])
        await two.until(lambda: two.state().leader == 1)
        await one.controller.topics.delete("t")
        two.broken = set()
        await one.until(lambda: not one.member.metadata_cache.image.deleting)
        await one.controller.topics.create("t", [[2, 1]], {})
        assert one.offline_replicas() == []
        await one.controller.elect(Reason.BROKERS)
        assert (one.state().leader, one.state().isr) == (2, (2, 1))

    run(test)


def test_change_reaches_other_brokers_before_the_listeners_of_the_controller_have_handled_it() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        handled = asyncio.Event()

        async def on_change(before: object, after: object) -> None:
            await handled.wait()

        one.member.metadata_cache.on_change(on_change)
        creation = asyncio.ensure_future(one.controller.topics.create("t", [[2, 3]], {}))
        try:
            await two.until(lambda: "t" in two.member.metadata_cache.image.topics)
        finally:
            handled.set()
        await creation

    run(test)


def test_change_of_a_cancelled_request_reaches_other_brokers() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        await one.controller.topics.create("t", [[2, 3]], {})
        handled = asyncio.Event()

        async def on_change(before: object, after: object) -> None:
            await handled.wait()

        one.member.metadata_cache.on_change(on_change)
        reassignment = asyncio.ensure_future(one.controller.reassignments.reassign(T0, [2]))
        await until(lambda: one.state().removing == (3,))
        reassignment.cancel()  # the client's connection is lost
        await asyncio.wait([reassignment])
        handled.set()
        await two.until(lambda: two.state().replicas == (2,))

    run(test)


def test_topic_config_that_changes_while_a_term_starts_is_applied() -> None:
    async def test(cluster: Cluster) -> None:
        _, two, three_ = await three(cluster)
        await cluster.brokers[1].controller.topics.create("t", [[2, 1]], {})
        multi = two.session.multi

        async def change_config(operations: Sequence[Operation]) -> None:
            if any(o.path.endswith("/state") for o in operations):  # the topics' configs have been read
                two.session.multi = multi  # type: ignore[method-assign]
                changed = Set(znodes.config_topic("t"), znodes.config_value({"retention.ms": "5"}))
                text = znodes.change_notification(f"{znodes.TOPIC_CONFIGS}/t")
                created = Create(f"{znodes.CONFIG_CHANGES}/config_change_", text, sequence=True)
                await multi([changed, created])
                for _ in range(100):  # let the broker handle the notification
                    await asyncio.sleep(0)
            await multi(operations)

        two.session.multi = change_config  # type: ignore[method-assign]
        three_.session.pause()  # so that the second one takes over
        await cluster.kill(1)
        await two.until(lambda: two.controller.is_active and two.state().isr == (2,))
        await two.until(lambda: two.member.metadata_cache.image.topics["t"].configs == {"retention.ms": "5"})
        three_.session.resume()

    run(test)


def test_topic_config_that_changes_while_partitions_are_added_is_kept() -> None:
    async def test(cluster: Cluster) -> None:
        one, _, _ = await three(cluster)
        await one.controller.topics.create("t", [[2, 3]], {})
        multi = one.session.multi

        async def change_config(operations: Sequence[Operation]) -> None:
            one.session.multi = multi  # type: ignore[method-assign]
            await one.member.config_store.set_topic("t", {"retention.ms": "5"})
            for _ in range(100):  # let the broker handle the notification
                await asyncio.sleep(0)
            await multi(operations)

        one.session.multi = change_config  # type: ignore[method-assign]
        await one.controller.topics.add_partitions("t", [[2, 3]], 2)
        topic = one.member.metadata_cache.image.topics["t"]
        assert (len(topic.partitions), topic.configs) == (2, {"retention.ms": "5"})

    run(test)


def test_deletion_of_a_dead_controller_is_completed_by_the_next() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, three_ = await three(cluster)
        await one.controller.topics.create("t", [[2, 3]], {})
        three_.reachable = False
        deletion = asyncio.ensure_future(one.controller.topics.delete("t"))
        await two.until(lambda: "t" not in two.member.metadata_cache.image.topics)
        await cluster.kill(1)
        deletion.cancel()
        three_.reachable = True
        await two.until(lambda: two.member.metadata_cache.image.controller_id != 1)
        await three_.until(lambda: "t" not in three_.member.metadata_cache.image.topics)
        active = two if two.controller.is_active else three_
        await active.until(lambda: not active.member.metadata_cache.image.deleting)
        assert T0 in three_.deleted
        assert cluster.tree.children("/brokers/topics") == []

    run(test)


def test_reassignment_completes_when_new_replicas_are_in_sync() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, three_ = await three(cluster)
        await one.controller.topics.create("t", [[1, 2]], {})
        await one.controller.reassignments.reassign(T0, [3, 2])
        moving = one.state()
        assert (moving.replicas, moving.adding, moving.removing) == ((3, 2, 1), (3,), (1,))
        assert three_.state() == moving
        node = cluster.tree.get("/brokers/topics/t")
        assert node is not None
        assert znodes.topic_layout("t", node.value).adding == {0: (3,)}
        await one.controller.isr_updates.alter_partition(1, T0, moving, (1, 2, 3))
        await three_.until(lambda: three_.state().leader == 3)
        moved = one.state()
        assert (moved.replicas, moved.isr, moved.adding, moved.removing) == ((3, 2), (2, 3), (), ())
        assert one.deleted == [T0]

    run(test)


def test_reassignments_of_many_partitions_are_completed_in_several_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_states, "MAX_STATES", 2)

    async def test(cluster: Cluster) -> None:
        one, _, three_ = await three(cluster)
        await one.controller.topics.create("t", [[1, 2]] * 5, {})
        partitions = [TopicPartition("t", index) for index in range(5)]
        sizes: list[int] = []
        multi = one.session.multi

        async def count(operations: Sequence[Operation]) -> None:
            sizes.append(sum(isinstance(o, Set) and o.path.endswith("/state") for o in operations))
            await multi(operations)

        one.session.multi = count  # type: ignore[method-assign]
        await one.controller.reassignments._write(
            {tp: replace(one.state(tp), replicas=(2, 1), isr=(1, 2)) for tp in partitions}
        )
        assert sizes == [2, 2, 1]
        await three_.until(lambda: all(three_.state(tp) == one.state(tp) for tp in partitions))
        assert {one.state(tp).replicas for tp in partitions} == {(2, 1)}
        node = cluster.tree.get("/brokers/topics/t")
        assert node is not None
        assert znodes.topic_layout("t", node.value).replicas == ((2, 1),) * 5

    run(test)


def test_cancelled_reassignment_restores_the_replicas() -> None:
    async def test(cluster: Cluster) -> None:
        one, _, three_ = await three(cluster)
        await one.controller.topics.create("t", [[1, 2]], {})
        with pytest.raises(NoReassignmentInProgressError):
            await one.controller.reassignments.reassign(T0, None)
        with pytest.raises(InvalidReplicaAssignmentError):
            await one.controller.reassignments.reassign(T0, [9])
        await one.controller.reassignments.reassign(T0, [2, 3])
        await one.controller.reassignments.reassign(T0, None)
        assert one.state().replicas == (2, 1)
        assert three_.deleted == [T0]

    run(test)


def test_reassignment_is_not_cancelled_without_a_possible_leader() -> None:
    async def test(cluster: Cluster) -> None:
        one, _, _ = await three(cluster)
        await cluster.add(4)
        await one.until(lambda: 4 in one.member.metadata_cache.image.brokers)
        await one.controller.topics.create("t", [[2, 1]], {})
        await one.controller.reassignments.reassign(T0, [3, 4])
        await one.controller.isr_updates.alter_partition(2, T0, one.state(), (2, 3))
        await cluster.kill(2)
        await one.until(lambda: one.state().leader == 3)
        with pytest.raises(InvalidReplicaAssignmentError, match="in sync"):
            await one.controller.reassignments.reassign(T0, None)
        assert one.state().adding == (3, 4)

    run(test)


def test_redirected_reassignment_keeps_the_last_in_sync_replica() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        await cluster.add(4)
        await one.until(lambda: 4 in one.member.metadata_cache.image.brokers)
        await one.controller.topics.create("t", [[2, 1]], {})
        await one.controller.reassignments.reassign(T0, [3])
        await one.controller.isr_updates.alter_partition(2, T0, one.state(), (2, 1, 3))  # completes it
        await one.controller.reassignments.reassign(T0, [2, 4])
        await one.controller.isr_updates.alter_partition(3, T0, one.state(), (3, 2))
        await cluster.kill(3)
        await one.until(lambda: one.state().leader == 2)
        with pytest.raises(InvalidReplicaAssignmentError, match="in sync"):
            await one.controller.reassignments.reassign(T0, [1, 4])
        assert one.state().leader == 2
        assert 2 in one.state().replicas

    run(test)


def test_leader_outside_the_target_is_replaced_by_one_in_sync() -> None:
    moving = PartitionImage(3, 1, (3, 4, 1, 2), (3, 2), adding=(3, 4), removing=(1, 2))
    after = reassignment_rules.start(moving, (4, 1), Candidates({1, 2, 3, 4}))
    assert after is not None
    assert (after.leader, after.replicas, after.isr, after.leader_epoch) == (2, (4, 1, 2), (2,), 2)


def test_requests_in_the_store_are_executed() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        await one.controller.topics.create("t", [[1, 2]], {})
        session = cluster.tree.session()
        await session.multi(
            [
                Create(
                    "/admin/reassign_partitions",
                    b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]}]}',
                )
            ]
        )
        await two.until(lambda: two.state().replicas == (2, 1))
        await session.multi(
            [Create("/admin/preferred_replica_election", b'{"version":1,"partitions":[{"topic":"t","partition":0}]}')]
        )
        await two.until(lambda: two.state().leader == 2)
        while cluster.tree.children("/admin") != ["delete_topics"]:
            await asyncio.sleep(0)

    run(test)


REASSIGN = "/admin/reassign_partitions"


def request_replicas(cluster: Cluster) -> list[int] | None:
    """Return the partitions in the reassignment request; None without a request."""
    node = cluster.tree.get(REASSIGN)
    return None if node is None else [item["partition"] for item in znodes.load(node.value)["partitions"]]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def test_reassignment_request_that_ended_is_not_started_again() -> None:
    async def test(cluster: Cluster) -> None:
        one, _, _ = await three(cluster)
        await one.controller.topics.create("t", [[1, 2]] * 4, {})
        requested = [{"topic": "t", "partition": p, "replicas": [1, 3]} for p in range(4)]
        await cluster.tree.session().multi([Create(REASSIGN, znodes.request_value(requested))])
        ends, cancelled, redirected, continuing = (TopicPartition("t", p) for p in range(4))
        await one.until(
            lambda: all(reassignment_rules.is_reassigning(one.state(TopicPartition("t", p))) for p in range(4))
        )
        await one.controller.reassignments.reassign(cancelled, None)
        await one.controller.reassignments.reassign(redirected, [3, 2])
        await one.controller.isr_updates.alter_partition(1, redirected, one.state(redirected), (1, 2, 3))
        await one.controller.isr_updates.alter_partition(1, ends, one.state(ends), (1, 2, 3))
        await until(lambda: request_replicas(cluster) == [3])
        await one.controller.reassignments.reassign(ends, [1, 2])
        for _ in range(100):  # nothing more is to happen to the request
            await asyncio.sleep(0)
        assert one.state(cancelled).replicas == (1, 2)
        assert one.state(redirected).replicas == (3, 2)
        assert reassignment_rules.target_of(one.state(ends)) == (1, 2)
        await one.controller.isr_updates.alter_partition(1, continuing, one.state(continuing), (1, 2, 3))
        await until(lambda: request_replicas(cluster) is None)
        assert one.state(continuing).replicas == (1, 3)

    run(test)


def test_reassignment_of_the_admin_api_overrides_the_request_in_the_store() -> None:
    async def test(cluster: Cluster) -> None:
        one, _, _ = await three(cluster)
        await one.controller.topics.create("t", [[1, 2], [1, 2]], {})
        requested = [{"topic": "t", "partition": p, "replicas": [1, 3]} for p in range(2)]
        request = znodes.request_value(requested)
        await cluster.tree.session().multi([Create(REASSIGN, request)])
        await one.until(
            lambda: all(reassignment_rules.is_reassigning(one.state(TopicPartition("t", p))) for p in range(2))
        )
        await one.member._znode_handlers.close()  # the broker dies before it reads again
        await one.controller.reassignments.reassign(T0, None)
        assert request_replicas(cluster) == [1]
        await one.controller.reassignments.reassign(TopicPartition("t", 1), [3, 2])
        assert request_replicas(cluster) is None
        await one.controller.reassignments.apply_request(T0, requested[0], request)  # which was read before
        assert one.state().replicas == (1, 2)

    run(test)


def test_changed_reassignment_request_is_applied_as_changed() -> None:
    async def test(cluster: Cluster) -> None:
        one, _, _ = await three(cluster)
        await one.controller.topics.create("t", [[1]], {})
        session = cluster.tree.session()
        for target in ([2, 1], [3, 1]):
            value = znodes.request_value([{"topic": "t", "partition": 0, "replicas": target}])
            await session.multi([Set(REASSIGN, value) if cluster.tree.get(REASSIGN) else Create(REASSIGN, value)])
            await one.until(lambda target=target: reassignment_rules.target_of(one.state()) == tuple(target))  # type: ignore[misc]
        await session.multi([Set(REASSIGN, b'{"version":1,"partitions":[{"topic":"t","partition":0}]}')])
        await until(lambda: request_replicas(cluster) is None)
        assert reassignment_rules.target_of(one.state()) == (3, 1)

    run(test)


def test_reassignment_with_an_offline_replica_completes_when_it_is_in_sync() -> None:
    async def test(cluster: Cluster) -> None:
        one, _, _ = await three(cluster)
        await one.controller.topics.create("t", [[1, 2]], {})
        await cluster.kill(2)
        await one.until(lambda: one.state().isr == (1,))
        await one.controller.reassignments.reassign(T0, [3, 2])
        await one.controller.isr_updates.alter_partition(1, T0, one.state(), (1, 3))
        assert reassignment_rules.is_reassigning(one.state())
        await cluster.add(2)
        await one.until(lambda: 2 in one.member.metadata_cache.image.brokers)
        await one.controller.isr_updates.alter_partition(1, T0, one.state(), (1, 2, 3))
        assert (one.state().replicas, one.state().leader) == ((3, 2), 3)

    run(test)


def test_reassignments_are_completed_later_if_it_fails_when_a_broker_leaves() -> None:
    async def test(cluster: Cluster) -> None:
        one, _, _ = await three(cluster)
        results: list[str] = []

        async def fail_once() -> None:
            results.append("completed" if results else "failed")
            if results == ["failed"]:
                raise MetadataStoreTimeoutError

        one.controller.reassignments.complete_finished = fail_once
        await cluster.kill(3)
        await until(lambda: len(results) > 1)
        assert results[:2] == ["failed", "completed"]

    run(test)


def test_reassignment_that_cannot_be_completed_at_first_is_completed_later() -> None:
    async def test(cluster: Cluster) -> None:
        one, _, _ = await three(cluster)
        await one.controller.topics.create("t", [[1, 2]], {})
        await one.controller.reassignments.reassign(T0, [3, 2])
        moving, multi = one.state(), one.session.multi

        async def fail_once(operations: Sequence[Operation]) -> None:
            if any(o.path == znodes.topic("t") for o in operations):  # the completion of the reassignment
                one.session.multi = multi  # type: ignore[method-assign]
                raise MetadataStoreTimeoutError
            await multi(operations)

        one.session.multi = fail_once  # type: ignore[method-assign]
        with pytest.raises(MetadataStoreTimeoutError):
            await one.controller.isr_updates.alter_partition(1, T0, moving, (1, 2, 3))
        assert (one.state().isr, one.state().removing) == ((1, 2, 3), (1,))
        await one.until(lambda: (one.state().replicas, one.state().removing) == ((3, 2), ()))

    run(test)


def test_broker_with_a_new_session_receives_all_metadata_again() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        for name in ("t", "u"):
            await one.controller.topics.create(name, [[1, 2]], {})
        two.session.pause()
        two.reachable = False
        two.session.expire()
        await one.until(lambda: 2 not in one.member.metadata_cache.image.brokers)
        await one.controller.topics.create("v", [[1]], {})
        two.reachable = True
        two.session.resume()
        await two.until(lambda: "v" in two.member.metadata_cache.image.topics)
        assert two.member.metadata_cache.image.topics.keys() == {"t", "u", "v"}
        assert two.state().isr == (1,)

    run(test)


def test_request_of_an_earlier_controller_is_rejected() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        await one.controller.topics.create("t", [[2, 3]], {})
        request = UpdateMetadataRequest(controller_id=9, controller_epoch=0, topic_states=[], live_brokers=[])
        response = await two.handle(request)
        assert response.error_code == 11
        assert two.member.metadata_cache.image.controller_id == 1

    run(test)


def full_update(controller_epoch: int, *topics: str, **more: Any) -> UpdateMetadataRequest:
    state = UpdateMetadataPartitionState(leader=1, leader_epoch=0, isr=[1], replicas=[1])
    return UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=controller_epoch,
        type=2,
        topic_states=[
            UpdateMetadataTopicState(topic_name=name, topic_id=UUID(int=7), partition_states=[state]) for name in topics
        ],
        live_brokers=[UpdateMetadataBroker(id=1, endpoints=[UpdateMetadataEndpoint(port=9, host="h")])],
        **more,
    )


def test_waiting_update_metadata_keeps_its_order_and_its_controller_check() -> None:
    async def test(cluster: Cluster) -> None:
        _, two, _ = await three(cluster)
        two.session.pause()
        first = asyncio.ensure_future(two.handle(full_update(1, "early")))
        second = asyncio.ensure_future(two.handle(full_update(1)))
        await asyncio.sleep(0.01)
        two.session.resume()
        await asyncio.gather(first, second)
        assert not two.member.metadata_cache.image.topics
        two.session.pause()
        late = asyncio.ensure_future(two.handle(full_update(1, "late")))
        await asyncio.sleep(0.01)
        await two.handle(LeaderAndIsrRequest(controller_id=3, controller_epoch=2, topic_states=[], live_leaders=[]))
        two.session.resume()
        assert (await late).error_code == 11
        assert not two.member.metadata_cache.image.topics
        assert two.member.metadata_cache.image.controller_id == 3

    run(test)


def test_leader_and_isr_of_another_topic_id_is_ignored() -> None:
    async def test(cluster: Cluster) -> None:
        _, two, _ = await three(cluster)
        await two.handle(full_update(1, "t"))
        state = LeaderAndIsrPartitionState(leader=2, leader_epoch=5, isr=[2], replicas=[2])
        for topic_id, leader in ((UUID(int=8), 1), (UUID(int=7), 2)):
            topic = LeaderAndIsrTopicState(topic_name="t", topic_id=topic_id, partition_states=[state])
            await two.handle(
                LeaderAndIsrRequest(controller_id=1, controller_epoch=1, topic_states=[topic], live_leaders=[])
            )
            assert two.state().leader == leader

    run(test)


def test_broker_with_an_expired_session_and_a_slow_store_registers_again() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        epoch = one.member.metadata_cache.image.brokers[2].epoch
        await two.handle(full_update(1))
        get = two.session.get

        async def fail_once(path: str, watch: Any = None) -> Any:
            if path == znodes.broker(2):
                two.session.get = get  # type: ignore[method-assign]
                raise MetadataStoreTimeoutError
            return await get(path, watch)

        two.session.get = fail_once  # type: ignore[method-assign]
        two.session.expire()
        two.session.resume()
        await one.until(
            lambda: 2 in (brokers_now := one.member.metadata_cache.image.brokers) and brokers_now[2].epoch > epoch
        )

    run(test)


def test_new_controller_retries_topics_that_it_cannot_read() -> None:
    async def test(cluster: Cluster) -> None:
        one, _, _ = await three(cluster)
        await one.controller.topics.create("t", [[1]], {})
        get = one.session.get

        async def fail(path: str, watch: Any = None) -> Any:
            if path == znodes.topic("t"):
                raise MetadataStoreTimeoutError
            return await get(path, watch)

        one.session.get = fail  # type: ignore[method-assign]
        with pytest.raises(MetadataStoreTimeoutError):
            await store_reader.read_topics(one.session)

    run(test)


def test_replica_with_a_newer_broker_epoch_does_not_join_the_isr() -> None:
    async def test(cluster: Cluster) -> None:
        one, _, _ = await three(cluster)
        await one.controller.topics.create("t", [[2, 3]], {})
        alone = await one.controller.isr_updates.alter_partition(2, T0, one.state(), (2,))
        epoch = one.member.metadata_cache.image.brokers[3].epoch
        with pytest.raises(IneligibleReplicaError):
            await one.controller.isr_updates.alter_partition(2, T0, alone, (2, 3), {3: epoch - 1})
        grown = await one.controller.isr_updates.alter_partition(2, T0, alone, (2, 3), {3: epoch})
        assert grown.isr == (2, 3)

    run(test)


def test_alter_partition_of_a_replaced_leader_is_fenced() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        await one.controller.topics.create("t", [[2, 1, 3]], {})
        old = two.state()
        await one.controller.controlled_shutdown(2, -1)
        with pytest.raises(FencedLeaderEpochError):
            await one.controller.isr_updates.alter_partition(2, T0, old, (2,))

    run(test)


def test_controller_with_a_failed_disk_elects_other_leaders() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, three_ = await three(cluster)
        await one.controller.topics.create("t", [[2, 3]], {})
        for broker in (two, three_):
            broker.member._offline_replicas = lambda broker=broker: [T0] if broker is two else []  # type: ignore[misc]
        three_.session.pause()  # so that the second one takes over
        await cluster.kill(1)
        await two.until(lambda: two.controller.is_active and two.state().leader == 3)
        assert two.state().isr == (3,)
        three_.session.resume()

    run(test)


@pytest.mark.parametrize("leader", [1, 2])
def test_disk_failure_while_the_store_is_unreachable_is_reported_later(
    leader: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(cluster: Cluster) -> None:
        brokers = dict(zip((1, 2, 3), await three(cluster), strict=True))
        await brokers[1].controller.topics.create("t", [[leader, 3]], {})
        own, write, failures = brokers[leader], brokers[leader].session.multi, 2
        own.broken.add(T0)

        async def fail_writes(operations: Sequence[Operation]) -> None:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise MetadataStoreTimeoutError
            await write(operations)

        monkeypatch.setattr(own.session, "multi", fail_writes)
        await own.member.report_offline_replicas([T0])
        await brokers[1].until(lambda: brokers[1].state().leader == 3)
        monkeypatch.undo()

    run(test)


def test_offline_replica_neither_leads_nor_is_in_sync_until_its_broker_restarts() -> None:
    async def test(cluster: Cluster) -> None:
        one, two, _ = await three(cluster)
        await one.controller.topics.create("t", [[2, 1], [2, 1]], {})
        two.broken = {T0}
        await two.member.report_offline_replicas([T0])
        await two.until(lambda: two.state().leader == 1)
        assert (one.state().isr, one.state(TopicPartition("t", 1)).leader) == ((1,), 2)
        for broker in (one, two):
            await broker.until(lambda broker=broker: broker.offline_replicas() == [2])  # type: ignore[misc]
        assert cluster.tree.children("/log_dir_event_notification") == []
        with pytest.raises(IneligibleReplicaError):
            await one.controller.isr_updates.alter_partition(1, T0, one.state(), (1, 2))
        await cluster.kill(2)
        await cluster.add(2)
        await one.until(lambda: 2 in one.member.metadata_cache.image.brokers)
        await one.until(lambda: one.offline_replicas() == [])
        assert (await one.controller.isr_updates.alter_partition(1, T0, one.state(), (1, 2))).isr == (1, 2)

    run(test)


def test_register_with_an_address_of_another_broker_fails() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.add(1)
        two = cluster.brokers[2] = Broker(cluster, 2)
        two.image = BrokerImage(2, cluster.brokers[1].image.endpoints)
        with pytest.raises(StartupError, match="127.0.0.1:9001 is already registered by broker 1"):
            await two.start()

    run(test)

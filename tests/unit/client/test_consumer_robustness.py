"""Robustness of the consumer: rebalances, Ctrl+C, forks and cancellation; both APIs have the same methods."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.client.consuming import TP, consumer, fill, poll_until, read
from tests.unit.client.keyboard import ctrl_c
from tests.unit.client.scripted import SILENCE, ScriptedBroker

from ottla import ConsumerRebalanceListener, KafkaConsumer, TopicPartition, aio
from ottla.broker.embedded import Broker
from ottla.client.consumer.fetch.completed_fetch import CompletedFetch
from ottla.errors import CommitFailedError, IllegalStateError, KafkaError, KafkaTimeoutError
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest

# Both APIs


def public(api: type[Any]) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(api, callable)
        if not name.startswith("_")
    }


ASYNCIO_ONLY = {"start", "stop", "getmany", "getone"}
"""Starting and stopping, and names of aiokafka."""


def test_both_apis_have_the_same_methods_and_parameters() -> None:
    blocking, asynchronous = public(KafkaConsumer), public(aio.KafkaConsumer)
    assert set(asynchronous) - set(blocking) == ASYNCIO_ONLY
    assert set(blocking) - set(asynchronous) == set()
    for name, signature in blocking.items():
        expected = [(p.name, p.kind, p.default) for p in signature.parameters.values()]
        actual = [(p.name, p.kind, p.default) for p in asynchronous[name].parameters.values()]
        assert expected == actual, name


KAFKA_PYTHON = [
    "assign",
    "assignment",
    "beginning_offsets",
    "bootstrap_connected",
    "close",
    "commit",
    "commit_async",
    "committed",
    "end_offsets",
    "highwater",
    "metrics",
    "offsets_for_times",
    "partitions_for_topic",
    "pause",
    "paused",
    "poll",
    "position",
    "resume",
    "seek",
    "seek_to_beginning",
    "seek_to_end",
    "subscribe",
    "subscription",
    "topics",
    "unsubscribe",
]
"""The public methods of kafka-python's KafkaConsumer."""
JAVA = [
    "assign",
    "assignment",
    "beginning_offsets",
    "client_instance_id",
    "close",
    "commit_async",
    "commit_sync",
    "committed",
    "current_lag",
    "end_offsets",
    "enforce_rebalance",
    "group_metadata",
    "list_topics",
    "metrics",
    "offsets_for_times",
    "partitions_for",
    "pause",
    "paused",
    "poll",
    "position",
    "register_metric_for_subscription",
    "resume",
    "seek",
    "seek_to_beginning",
    "seek_to_end",
    "subscribe",
    "subscription",
    "unregister_metric_from_subscription",
    "unsubscribe",
    "wakeup",
]
"""The methods of Java's Consumer, in snake case."""
LEFT_OUT = {
    "register_metric_for_subscription": "metrics of applications are not pushed (KIP-1076)",
    "unregister_metric_from_subscription": "metrics of applications are not pushed (KIP-1076)",
}


@pytest.mark.parametrize("names", [KAFKA_PYTHON, JAVA], ids=["kafka-python", "java"])
def test_consumer_has_the_methods_of_other_clients(names: list[str]) -> None:
    assert set(names) - set(public(KafkaConsumer)) <= set(LEFT_OUT)
    assert not set(LEFT_OUT) & set(public(KafkaConsumer))


# Rebalances


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky", "kip-848"])
def test_members_that_join_and_leave_read_each_record_exactly_once(strategy: str) -> None:
    """Records are sent throughout; members join and leave, and every commit is in time."""
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "retry_backoff_ms": 10, "max_poll_records": 7}
    if strategy == "kip-848":
        options["group_protocol"] = "consumer"
    else:
        options |= {"partition_assignment_strategy": [strategy], "heartbeat_interval_ms": 20}
    chance = random.Random(7)
    settings = {
        "group.consumer.min.heartbeat.interval.ms": 10,
        "group.consumer.heartbeat.interval.ms": 20,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 1,
    }
    with Broker(settings) as broker:
        from ottla import KafkaAdminClient, KafkaProducer, NewTopic

        address = broker.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=address) as admin:
            admin.create_topics([NewTopic("t", 5, 1)])
        seen: list[tuple[int, int]] = []
        members: list[KafkaConsumer] = []
        with KafkaProducer(bootstrap_servers=address, linger_ms=0) as producer:
            for turn in range(60):
                for number in range(10):
                    producer.send("t", b"v", partition=number % 5)
                if turn % 10 == 0 and len(members) < 3:
                    members.append(KafkaConsumer("t", bootstrap_servers=address, group_id="g", **options))
                elif turn % 10 == 5 and len(members) > 1:
                    members.pop(chance.randrange(len(members))).close()
                for one in members:
                    seen += [(r.partition, r.offset) for rows in one.poll(timeout_ms=5).values() for r in rows]
        deadline = time.monotonic() + 30
        while len(seen) < 600 and time.monotonic() < deadline:
            for one in members:
                seen += [(r.partition, r.offset) for rows in one.poll(timeout_ms=5).values() for r in rows]
        for one in members:
            one.close()
    assert len(set(seen)) == 600
    assert len(seen) == 600, "no record was returned after its partition was revoked"


def test_positions_after_a_rebalance_are_the_committed_offsets(broker: ScriptedBroker) -> None:
    fill(broker, 30)
    with consumer(broker, "t", group_id="g", enable_auto_commit=False, max_poll_records=10) as c:
        read(c, 10)
        c.commit()
        read(c, 10)
        c.enforce_rebalance()
        poll_until(c, lambda: len(broker.requests_of(JoinGroupRequest)) == 2 and TP in c.assignment())
        assert c.position(TP) in (10, 20), "the committed offset, or a later one as records were polled again"


def test_lost_partitions_return_no_buffered_records(broker: ScriptedBroker) -> None:
    fill(broker, 50)
    lost: list[int] = []

    class LossListener(ConsumerRebalanceListener):
        def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
            lost.append(len(seen))

    seen: list[int] = []
    with consumer(broker, group_id="g", heartbeat_interval_ms=20, max_poll_records=5, enable_auto_commit=False) as c:
        c.subscribe(["t"], listener=LossListener())
        seen += [r.offset for r in read(c, 5)]
        c.commit()
        broker.on(HeartbeatRequest, lambda _: HeartbeatResponse(error_code=22))
        while not c._core.membership.has_work:
            time.sleep(0.005)
        with pytest.raises(CommitFailedError):
            c.commit()
        seen += [r.offset for r in read(c, 45)]
    assert lost == [5]
    assert seen == list(range(50)), "records buffered before the loss are fetched again, from the committed offset"


# Ctrl+C


def interrupted(broker: ScriptedBroker, request: type[Any], call: Callable[[], Any]) -> None:
    """Interrupt the call with Ctrl+C once the broker has the request."""
    # Read without the broker's lock, which is held while a handler waits.
    with ctrl_c(lambda: any(type(r) is request for r in list(broker.requests))):
        call()


def test_ctrl_c_interrupts_a_commit_and_the_consumer_stays_usable(broker: ScriptedBroker) -> None:
    with consumer(broker, group_id="g") as c:
        c.assign([TP])
        broker.on(OffsetCommitRequest, lambda _: SILENCE)
        interrupted(broker, OffsetCommitRequest, lambda: c.commit({TP: 1}))
        broker.cut()
        c.commit({TP: 2})
    assert broker.committed[("t", 0)][0] == 2


def test_ctrl_c_interrupts_a_join_and_the_next_poll_continues_it(broker: ScriptedBroker) -> None:
    with consumer(broker, "t", group_id="g") as c:
        gate = threading.Event()
        broker.on(JoinGroupRequest, lambda _: (gate.wait(10), None)[1])
        interrupted(broker, JoinGroupRequest, lambda: c.poll(timeout_ms=60_000))
        gate.set()
        poll_until(c, lambda: c.assignment() == {TP})


@pytest.mark.usefixtures("no_leaks")
def test_ctrl_c_interrupts_a_close_and_leaves_no_threads_and_descriptors() -> None:
    with ScriptedBroker() as broker:
        broker.add_topic("t")
        c = consumer(broker, "t", group_id="g")
        poll_until(c, lambda: bool(c.assignment()))
        broker.on(LeaveGroupRequest, lambda _: SILENCE, times=10)
        interrupted(broker, LeaveGroupRequest, c.close)
        c.close()


def test_ctrl_c_interrupts_an_offset_lookup(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        gate = threading.Event()
        broker.on(ListOffsetsRequest, lambda _: (gate.wait(10), None)[1])
        interrupted(broker, ListOffsetsRequest, lambda: c.end_offsets([TP]))
        gate.set()
        assert c.end_offsets([TP]) == {TP: 0}


@pytest.mark.parametrize("as_columns", [False, True])
def test_ctrl_c_while_a_poll_takes_records_neither_commits_nor_skips_them(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, as_columns: bool
) -> None:
    fill(broker, 20)
    next_header, batches = CompletedFetch.next_header, itertools.count(1)

    def interrupt(fetched: CompletedFetch) -> Any:
        if next(batches) == 2:  # after the records of the first batch were taken
            raise KeyboardInterrupt
        return next_header(fetched)

    monkeypatch.setattr(CompletedFetch, "next_header", interrupt)
    with consumer(broker, "t", group_id="g") as c:
        with pytest.raises(KeyboardInterrupt):
            for _ in range(100):
                c.poll_batch(100) if as_columns else c.poll(100)
        assert c.position(TP) == 0
        c.commit()
        assert broker.committed[("t", 0)][0] == 0
        assert [record.offset for record in read(c, 20)] == list(range(20))


# Forks and closing


def test_every_call_in_a_forked_child_raises_illegal_state(broker: ScriptedBroker) -> None:
    with consumer(broker, "t", group_id="g") as c:
        poll_until(c, lambda: bool(c.assignment()))
        child = os.fork()
        if child == 0:
            code = 0
            for call in (c.poll, c.commit, c.topics, c.unsubscribe, lambda: c.seek(TP, 0), lambda: next(c)):
                try:
                    call()
                    code = 1
                except IllegalStateError as error:
                    code = code if "fork" in str(error) else 2
                except BaseException:
                    code = 3
            c.close()
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        fill(broker, 3)
        assert len(read(c, 3)) == 3, "the parent continues"
    assert broker.requests_of(LeaveGroupRequest), "the child's close did not leave the group"


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_close_at_any_stage_leaves_no_threads_and_descriptors(group_protocol: str) -> None:
    with ScriptedBroker() as broker:
        broker.add_topic("t")
        for reached in range(5):
            c = consumer(broker, "t", group_id="g", group_protocol=group_protocol)
            for _ in range(reached):
                c.poll(timeout_ms=1)
            c.close(timeout_ms=300)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ottla-consumer")]


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize(
    "options",
    [
        {"partition_assignment_strategy": [object()]},
        {"security_protocol": "SSL", "ssl_cafile": "/nowhere"},
        {"value_deserializer": "missing.HasThis"},
    ],
)
def test_consumer_that_cannot_be_created_leaves_no_threads_and_descriptors(options: dict[str, Any]) -> None:
    with pytest.raises(KafkaError):
        KafkaConsumer("t", bootstrap_servers="127.0.0.1:1", metric_reporters="logging", **options).poll(timeout_ms=100)


@pytest.mark.option("client.id")
def test_default_client_id_contains_group_and_instance_id(broker: ScriptedBroker) -> None:
    with consumer(broker, group_id="g", group_instance_id="one") as c:
        assert repr(c) == "<KafkaConsumer consumer-g-one>"
    with consumer(broker, group_id="g") as c, consumer(broker, client_id="mine") as named:
        assert repr(c).startswith("<KafkaConsumer consumer-g-")
        assert repr(named) == "<KafkaConsumer mine>"


# asyncio


def test_polls_cancelled_at_any_moment_lose_no_record(broker: ScriptedBroker) -> None:
    broker.add_topic("t", 3)
    for partition in range(3):
        fill(broker, 200, partition=partition, per_batch=5)
    chance = random.Random(11)
    seen: list[tuple[int, int]] = []

    async def run() -> None:
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "retry_backoff_ms": 5, "fetch_max_wait_ms": 5}
        async with aio.KafkaConsumer(
            "t", bootstrap_servers=broker.address, group_id="g", max_poll_records=7, heartbeat_interval_ms=10, **options
        ) as c:
            turns = 0
            while len(seen) < 600:
                turns += 1
                assert turns < 20_000
                if turns % 40 == 0:
                    broker.on(HeartbeatRequest, lambda _: HeartbeatResponse(error_code=27))
                try:
                    async with asyncio.timeout(chance.choice([0.0, 0.0005, 0.002, 0.01])):
                        if chance.random() < 0.2:
                            await c.commit()
                        elif chance.random() < 0.3:
                            record = await anext(c)
                            seen.append((record.partition, record.offset))
                        else:
                            result = await c.poll(20)
                            seen.extend((r.partition, r.offset) for rows in result.values() for r in rows)
                except (KafkaTimeoutError, CommitFailedError):
                    pass
                except TimeoutError:
                    pass

    asyncio.run(run())
    assert len(set(seen)) == len(seen) == 600
    for partition in range(3):
        assert [o for p, o in seen if p == partition] == list(range(200))


@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_group_members_cancelled_at_any_moment_lose_no_record(group_protocol: str) -> None:
    """Two members of a group with an Ottla broker, while records are sent; the second one leaves and rejoins."""
    chance = random.Random(13)
    settings = {
        "group.consumer.min.heartbeat.interval.ms": 10,
        "group.consumer.heartbeat.interval.ms": 20,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 1,
    }
    seen: list[tuple[int, int]] = []
    options: dict[str, Any] = {"group_id": "g", "group_protocol": group_protocol, "auto_offset_reset": "earliest"}
    options |= {"retry_backoff_ms": 5, "max_poll_records": 3, "auto_commit_interval_ms": 20}
    if group_protocol == "classic":
        options["heartbeat_interval_ms"] = 10

    async def use(c: aio.KafkaConsumer, until: Callable[[], bool]) -> None:
        while not until():
            try:
                async with asyncio.timeout(chance.choice([0.0, 0.001, 0.003, 0.01])):
                    result = await c.poll(20)
                    seen.extend((r.partition, r.offset) for rows in result.values() for r in rows)
            except TimeoutError:
                pass

    async def run(address: str) -> None:
        async with (
            aio.KafkaProducer(bootstrap_servers=address, linger_ms=0) as producer,
            aio.KafkaConsumer("t", bootstrap_servers=address, **options) as first,
        ):
            reading = asyncio.create_task(use(first, lambda: len(set(seen)) == 400))
            for _ in range(4):
                async with aio.KafkaConsumer("t", bootstrap_servers=address, **options) as second:
                    done = asyncio.Event()
                    turn = asyncio.create_task(use(second, done.is_set))
                    for number in range(100):
                        await producer.send("t", b"v", partition=number % 4)
                        await asyncio.sleep(0.001)
                    done.set()
                    await turn
            async with asyncio.timeout(20):
                await reading

    with Broker(settings) as broker:
        from ottla import KafkaAdminClient, NewTopic

        with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 4, 1)])
        asyncio.run(run(broker.bootstrap_servers))
    assert len(set(seen)) == len(seen) == 400


def test_iteration_after_a_break_continues_at_the_next_record(broker: ScriptedBroker) -> None:
    fill(broker, 10)

    async def run() -> list[int]:
        seen = []
        async with aio.KafkaConsumer(bootstrap_servers=broker.address, auto_offset_reset="earliest") as c:
            c.assign([TP])
            async for record in c:
                seen.append(record.offset)
                if record.offset == 3:
                    break
            seen += [r.offset for r in (await c.poll(2000, max_records=2))[TP]]
            async for record in c:
                seen.append(record.offset)
                if record.offset == 9:
                    break
        return seen

    assert asyncio.run(run()) == list(range(10))


@pytest.mark.option("consumer.timeout.ms")
def test_iteration_ends_after_consumer_timeout_without_records(broker: ScriptedBroker) -> None:
    fill(broker, 5)

    async def run() -> int:
        count = 0
        async with aio.KafkaConsumer(
            bootstrap_servers=broker.address, auto_offset_reset="earliest", consumer_timeout_ms=1500
        ) as c:
            c.assign([TP])
            async for _ in c:
                count += 1
        return count

    assert asyncio.run(run()) == 5
    with consumer(broker, consumer_timeout_ms=1500) as c:
        c.assign([TP])
        assert len(list(c)) == 5


def test_wakeup_interrupts_an_asyncio_poll(broker: ScriptedBroker) -> None:
    from ottla.errors import WakeupError

    async def run() -> None:
        async with aio.KafkaConsumer(bootstrap_servers=broker.address) as c:
            c.assign([TP])
            asyncio.get_running_loop().call_later(0.05, c.wakeup)
            with pytest.raises(WakeupError):
                await c.poll(60_000)
            assert await c.poll(10) == {}
        with pytest.raises(IllegalStateError, match="closed"):
            await c.poll()

    asyncio.run(run())


def test_rebalance_listener_coroutines_may_use_the_consumer(broker: ScriptedBroker) -> None:
    fill(broker, 10)

    async def run() -> list[int]:
        class Seeker:
            async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
                for tp in assigned:
                    ends = await c.end_offsets([tp])
                    c.seek(tp, ends[tp] - 2)

            async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
                await c.commit()

        async with aio.KafkaConsumer(bootstrap_servers=broker.address, group_id="g", enable_auto_commit=False) as c:
            c.subscribe(["t"], listener=Seeker())
            return [(await anext(c)).offset for _ in range(2)]

    assert asyncio.run(run()) == [8, 9]
    assert broker.committed[("t", 0)][0] == 10

"""The asynchronous API, the I/O thread, and lazy imports of the package."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.client.scripted import DROP, SILENCE, ScriptedBroker

import ottla
from ottla import KafkaAdminClient, NewTopic, TopicPartition, aio
from ottla.client.core.io_thread import IoThread, run_at_caller
from ottla.errors import BufferExhaustedError, IllegalStateError, KafkaTimeoutError, TopicAlreadyExistsError
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.protocol.messages.produce import ProduceRequest


def run(test: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(test())  # type: ignore[arg-type]


def test_asyncio_producer_sends_and_consumer_reads(broker: ScriptedBroker) -> None:
    async def test() -> None:
        async with aio.KafkaProducer(bootstrap_servers=broker.address, linger_ms=0) as producer:
            future = await producer.send("t", b"1", key=b"k")
            assert (await future).offset == 0
            assert (await producer.send_and_wait("t", b"2")).offset == 1
            for number in range(3, 11):
                await producer.send("t", b"%d" % number)
            await producer.flush(10)
        async with aio.KafkaConsumer(
            "t", bootstrap_servers=broker.address, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer:
            seen = []
            async for record in consumer:
                seen.append(record.value)
                if len(seen) == 7:
                    break
            assert seen == [b"%d" % number for number in range(1, 8)]
            await consumer.commit()
            result = await consumer.committed(TopicPartition("t", 0))
            assert result is not None
            assert result == 7
            assert await consumer.end_offsets([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 10}

    run(test)
    assert not [
        thread for thread in threading.enumerate() if thread.name.startswith(("ottla-producer", "ottla-consumer"))
    ]


def test_asyncio_clients_that_are_not_started_say_so() -> None:
    address = "localhost:1"

    async def test() -> None:
        with pytest.raises(IllegalStateError, match=r"not started; use `async with`, or `await producer.start\(\)`"):
            await aio.KafkaProducer(bootstrap_servers=address).send("t", b"1")
        with pytest.raises(IllegalStateError, match=r"not started; use `async with`, or `await consumer.start\(\)`"):
            await aio.KafkaConsumer("t", bootstrap_servers=address).poll(1)
        with pytest.raises(IllegalStateError, match=r"not started; use `async with`, or `await consumer.start\(\)`"):
            await aio.KafkaShareConsumer("t", bootstrap_servers=address, group_id="g").poll(1)
        with pytest.raises(IllegalStateError, match=r"not started; use `async with`, or `await client.start\(\)`"):
            await asyncio.wait_for(aio.KafkaProducer(bootstrap_servers=address).send_batch("t", [b"1"]), 5)
        with pytest.raises(IllegalStateError, match=r"not started; use `async with`, or `await client.start\(\)`"):
            await asyncio.wait_for(aio.KafkaAdminClient(bootstrap_servers=address).create_topics(["t"]), 5)

    run(test)


def test_asyncio_rebalance_listener_may_have_coroutines(broker: ScriptedBroker) -> None:
    output: list[Any] = []

    class Listener:
        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            await asyncio.sleep(0)
            output.append(("assigned", assigned))

        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            output.append(("revoked", revoked))

    async def test() -> None:
        async with aio.KafkaConsumer(bootstrap_servers=broker.address, group_id="g") as consumer:
            consumer.subscribe(["t"], listener=Listener())
            while not consumer.assignment():
                await consumer.poll(50)

    run(test)
    assert output == [("assigned", {TopicPartition("t", 0)}), ("revoked", {TopicPartition("t", 0)})]


def test_commit_is_sent_after_an_asynchronous_commit_of_the_same_step(broker: ScriptedBroker) -> None:
    tp = TopicPartition("t", 0)

    async def test() -> None:
        async with aio.KafkaConsumer(bootstrap_servers=broker.address, group_id="g", enable_auto_commit=False) as c:
            c.assign([tp])
            await c.commit({tp: 1})
            c.commit_async({tp: 5})
            await c.commit({tp: 10})

    run(test)
    requests = broker.requests_of(OffsetCommitRequest)
    assert [r.topics[0].partitions[0].committed_offset for r in requests] == [1, 5, 10]


def test_asyncio_send_waits_for_memory_at_most_max_block_ms(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: SILENCE, times=10)

    async def test() -> None:
        producer = aio.KafkaProducer(
            bootstrap_servers=broker.address, buffer_memory=10_000, batch_size=6_000, max_block_ms=1500, linger_ms=0
        )
        await producer.start()
        await producer.send("t", bytes(5000))
        with pytest.raises(BufferExhaustedError):
            await producer.send("t", bytes(5000))
        await producer.stop(timeout=0)
        with pytest.raises(IllegalStateError, match="closed"):
            await producer.send("t", b"v")

    run(test)


def test_get_in_the_event_loop_of_an_asyncio_producer_raises_illegal_state(broker: ScriptedBroker) -> None:
    async def test() -> None:
        async with aio.KafkaProducer(bootstrap_servers=broker.address, linger_ms=100) as producer:
            future = await producer.send("t", b"1")
            for wait in (future.get, future.result, future.exception):
                with pytest.raises(IllegalStateError, match="use `await future`"):
                    wait(1)
            assert (await asyncio.to_thread(future.get, 10)).offset == 0  # another thread may wait
            assert future.get() == await future

    run(test)


def test_asyncio_calls_that_wait_for_metadata_or_a_connection_raise_illegal_state_at_close(
    broker: ScriptedBroker,
) -> None:
    async def test() -> None:
        producer = aio.KafkaProducer(bootstrap_servers=broker.address)
        admin = aio.KafkaAdminClient(bootstrap_servers=broker.address)
        await producer.start()
        await admin.start()
        sending = asyncio.create_task(producer.send("missing", b"1"))
        while not broker.requests_of(MetadataRequest):
            await asyncio.sleep(0.01)
        broker.on(ApiVersionsRequest, lambda _: SILENCE, times=10)
        listing = asyncio.create_task(admin.list_topics())
        while len(broker.requests_of(ApiVersionsRequest)) < 2:
            await asyncio.sleep(0.01)
        await producer.stop()
        await admin.close()
        for waiting in (sending, listing):
            with pytest.raises(IllegalStateError, match="the client is closed"):
                await asyncio.wait_for(waiting, 5)
        with pytest.raises(IllegalStateError, match="the client is closed"):
            await asyncio.wait_for(admin.create_topics([NewTopic("new", 1, 1)]), 5)

    run(test)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("iterates", [False, True])
def test_poll_of_another_task_does_not_join_the_group_again_while_the_consumer_closes(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, protocol: str, iterates: bool
) -> None:
    def is_join(request: Any) -> bool:
        return isinstance(request, JoinGroupRequest) or getattr(request, "member_epoch", None) == 0

    async def test() -> None:
        options: Any = {"group_id": "g", "group_protocol": protocol}
        consumer = aio.KafkaConsumer("t", bootstrap_servers=broker.address, **options)
        await consumer.start()
        core = consumer._core
        end_commits = core.commits.close

        async def close_commits() -> None:  # called after the consumer has left the group
            core.poll_trigger.set()
            await asyncio.sleep(0.1)
            await end_commits()

        monkeypatch.setattr(core.commits, "close", close_commits)
        polling: asyncio.Task[Any] = asyncio.create_task(
            consumer.getone() if iterates else consumer.poll(timeout_ms=60_000)
        )
        while not core.membership.is_settled or core.membership.has_work:
            await asyncio.sleep(0.01)
        await consumer.close()
        with pytest.raises(StopAsyncIteration if iterates else IllegalStateError):
            await asyncio.wait_for(polling, 5)

    run(test)
    assert len([request for request in broker.requests if is_join(request)]) == 1


def test_close_during_a_join_does_not_cancel_the_poll_of_another_task(broker: ScriptedBroker) -> None:
    broker.on(JoinGroupRequest, lambda _: SILENCE)

    async def test() -> None:
        consumer = aio.KafkaConsumer("t", bootstrap_servers=broker.address, group_id="g")
        await consumer.start()
        polling = asyncio.create_task(consumer.poll(timeout_ms=60_000))
        while not broker.requests_of(JoinGroupRequest):
            await asyncio.sleep(0.01)
        await consumer.close()
        with pytest.raises(IllegalStateError, match="the consumer is closed"):
            await asyncio.wait_for(polling, 5)

    run(test)


def test_admin_client_creates_lists_and_describes_topics(broker: ScriptedBroker) -> None:
    with KafkaAdminClient(bootstrap_servers=broker.address) as admin:
        admin.create_topics([NewTopic("new", 3, 1)])
        assert admin.list_topics() == ["new", "t"]
        assert len(admin.describe_topics(["new"])["new"].partitions) == 3
        with pytest.raises(TopicAlreadyExistsError, match="new"):
            admin.create_topics([NewTopic("new", 3, 1)])
        cluster = admin.describe_cluster()
        assert cluster.cluster_id == "scripted"
        assert cluster.controller is not None
        assert cluster.controller.port == broker.port


def test_create_topics_is_retried_after_controller_change_and_lost_connection(broker: ScriptedBroker) -> None:
    from ottla.protocol.messages.create_topics import CreatableTopicResult

    not_controller = CreateTopicsResponse(topics=[CreatableTopicResult(name="new", error_code=41)])
    broker.on(CreateTopicsRequest, lambda _: not_controller)
    broker.on(CreateTopicsRequest, lambda _: DROP)
    with KafkaAdminClient(bootstrap_servers=broker.address, retry_backoff_ms=10) as admin:
        admin.create_topics([NewTopic("new", 1, 1)])
    assert "new" in broker.topics


def test_admin_call_ends_after_timeout_ms(broker: ScriptedBroker) -> None:
    broker.on(CreateTopicsRequest, lambda _: SILENCE, times=100)
    with KafkaAdminClient(bootstrap_servers=broker.address) as admin, pytest.raises(KafkaTimeoutError):
        admin.create_topics([NewTopic("new", 1, 1)], timeout_ms=100)


# The I/O thread


def test_io_thread_run_returns_the_result_or_raises_the_error() -> None:
    async def good() -> int:
        return 5

    async def bad() -> int:
        raise KeyError("x")

    io = IoThread("test")
    io.start()
    assert io.run(good()) == 5
    with pytest.raises(KeyError):
        io.run(bad())
    io.stop()
    with pytest.raises(IllegalStateError, match="closed"):
        io.run(good())


def test_io_thread_run_cancels_the_call_at_its_timeout() -> None:
    cancelled = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()

    io = IoThread("test")
    io.start()
    with pytest.raises(KafkaTimeoutError):
        io.run(forever(), 0.05)
    assert cancelled.wait(5)
    io.stop()


def test_run_at_caller_runs_functions_in_the_calling_thread() -> None:
    async def runs_on_main_thread() -> bool:
        result: bool = await run_at_caller(lambda: threading.current_thread() is threading.main_thread())
        return result

    io = IoThread("test")
    io.start()
    assert io.run(runs_on_main_thread())
    io.stop()


def test_run_on_the_io_thread_itself_raises_illegal_state() -> None:
    io = IoThread("test")
    io.start()

    async def inner() -> None: ...

    async def outer() -> None:
        io.run(inner())

    with pytest.raises(IllegalStateError, match="cannot wait"):
        io.run(outer())
    io.stop()


# The package


def test_every_public_name_can_be_imported() -> None:
    for name in ottla.__all__:
        alias = ottla._HOMES[name] == "ottla.client.kafka_python"
        assert getattr(ottla, name).__name__ == name or alias


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import ottla; print(sorted(set(sys.modules) - before))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert result.strip() == "['__future__', 'ottla']"

"""Guarantees of the producer: order, no leaks, close within its timeout."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.unit.client.keyboard import ctrl_c
from tests.unit.client.scripted import DROP, SILENCE, ScriptedBroker

from ottla import KafkaProducer, aio
from ottla.client.core.metadata import Cluster, PartitionInfo, TopicInfo
from ottla.client.producer.core import ProducerCore
from ottla.clock import ManualClock
from ottla.config.producer import ProducerConfig
from ottla.errors import IllegalStateError, KafkaError, KafkaTimeoutError, SaslAuthenticationFailedError
from ottla.model import Node
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.records.batch import read_header
from ottla.records.decoder import records


def options(broker: ScriptedBroker, **more: Any) -> dict[str, Any]:
    quick = {"linger_ms": 0, "retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "reconnect_backoff_ms": 1}
    return {"bootstrap_servers": broker.address, **quick, "reconnect_backoff_max_ms": 5, **more}


def producer(broker: ScriptedBroker, **more: Any) -> KafkaProducer:
    return KafkaProducer(**options(broker, **more))


def failure(code: int) -> ProduceResponse:
    response = PartitionProduceResponse(index=0, error_code=code, base_offset=-1)
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[response])])


def values(broker: ScriptedBroker) -> list[int]:
    return [int(r.value or b"") for batch in broker.topics["t"][0] for r in records(batch)]


def assert_no_memory_in_use(p: KafkaProducer | aio.KafkaProducer) -> None:
    """Assert that no memory is in use, no batch is in flight, and no call waits."""
    accumulator = p._core.accumulator
    assert accumulator.pool.available == accumulator.pool.total
    assert accumulator.pool.queued == 0
    assert not accumulator.incomplete


# Metadata


def test_metadata_that_is_replaced_while_a_thread_reads_it_is_used_by_the_next_record() -> None:
    def cluster_of(partitions: int) -> Cluster:
        infos = tuple(PartitionInfo("t", n, 7, 0, (7,), (7,), ()) for n in range(partitions))
        return Cluster({7: Node(7, "h", 9092)}, {"t": TopicInfo("t", ZERO_UUID, False, infos)})

    class Replaced:
        """Metadata that the event loop replaces right after a thread has read the snapshot."""

        version = 1
        snapshots = (cluster_of(1), cluster_of(3))

        @property
        def cluster(self) -> Cluster:
            snapshot = self.snapshots[self.version - 1]
            self.version = 2
            return snapshot

    core: Any = ProducerCore(ProducerConfig.from_keywords(), lambda: None)
    core.metadata = Replaced()
    assert core.queues("t", None).count == 1
    assert core.queues("t", None).count == 3


# Order


@pytest.mark.parametrize("seed", range(3))
def test_order_is_kept_with_five_requests_in_flight_and_random_failures(broker: ScriptedBroker, seed: int) -> None:
    chance = random.Random(seed)

    def fail_sometimes(request: ProduceRequest) -> Any:
        return chance.choice([None, None, None, failure(6), failure(7), failure(19), DROP])

    broker.on(ProduceRequest, fail_sometimes, times=150)
    with producer(broker, batch_size=200) as p:
        futures = [p.send("t", b"%d" % i) for i in range(400)]
        p.flush(30)
        assert [f.get(0).offset for f in futures] == list(range(400))
        assert_no_memory_in_use(p)
    assert values(broker) == list(range(400))


def test_batch_split_while_others_are_in_flight_keeps_order_and_sequences(broker: ScriptedBroker) -> None:
    def reject_large(request: ProduceRequest) -> ProduceResponse | None:
        return failure(10) if sent_count(request) > 7 else None

    broker.on(ProduceRequest, reject_large, times=10_000)
    with producer(broker, batch_size=400) as p:
        futures = [p.send("t", b"%d" % i) for i in range(300)]
        p.flush(30)
        assert [f.get(0).offset for f in futures] == list(range(300))
        assert_no_memory_in_use(p)
    headers = [read_header(batch) for batch in broker.topics["t"][0]]
    assert [h.base_sequence for h in headers] == [h.base_offset for h in headers]


def test_one_request_in_flight_keeps_order_without_idempotence(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: random.choice([None, failure(6)]), times=40)
    with producer(
        broker, batch_size=200, max_in_flight_requests_per_connection=1, enable_idempotence=False, acks=1
    ) as p:
        for i in range(200):
            p.send("t", b"%d" % i)
        p.flush(30)
    assert values(broker) == list(range(200))


# Memory


def all_succeed(broker: ScriptedBroker, p: KafkaProducer) -> None:
    p.flush(10)


def all_rejected(broker: ScriptedBroker, p: KafkaProducer) -> None:
    broker.on(ProduceRequest, lambda _: failure(29), times=1000)
    p.flush(10)


def all_expire(broker: ScriptedBroker, p: KafkaProducer) -> None:
    broker.on(ProduceRequest, lambda _: SILENCE, times=1000)
    clock = p._core.clock
    assert isinstance(clock, ManualClock)
    p.send("t", b"v")
    clock.advance(120_001)
    p.flush(10)


def sent_count(request: ProduceRequest) -> int:
    data = request.topic_data[0].partition_data[0].records
    assert data is not None
    return read_header(data).count


def all_are_split(broker: ScriptedBroker, p: KafkaProducer) -> None:
    def reject_large(request: ProduceRequest) -> ProduceResponse | None:
        return failure(10) if sent_count(request) > 1 else None

    broker.on(ProduceRequest, reject_large, times=10_000)
    p.flush(10)


def connection_lost(broker: ScriptedBroker, p: KafkaProducer) -> None:
    broker.on(ProduceRequest, lambda _: DROP, times=3)
    p.flush(10)


def pending_at_close(broker: ScriptedBroker, p: KafkaProducer) -> None:
    broker.on(ProduceRequest, lambda _: SILENCE, times=1000)
    p.close(timeout=0)


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize(
    "scenario",
    [all_succeed, all_rejected, all_expire, all_are_split, connection_lost, pending_at_close],
    ids=lambda f: f.__name__,
)
def test_memory_is_released_exactly_once(
    broker: ScriptedBroker, scenario: Callable[[ScriptedBroker, KafkaProducer], None], codec: str
) -> None:
    clock = ManualClock() if scenario is all_expire else None
    arguments = {"clock": clock} if clock else {}
    with producer(
        broker, buffer_memory=100_000, batch_size=1000, linger_ms=50, compression_type=codec, **arguments
    ) as p:
        futures = [p.send("t", bytes(size)) for size in (10, 400, 400, 400, 3000, 10, 10)]
        scenario(broker, p)
        p.close(timeout=0)
        assert_no_memory_in_use(p)
        assert all(future.done() for future in futures)
        assert len(p._core.accumulator.pool._free) * 1000 <= 100_000


def test_send_that_waits_for_memory_fails_at_close(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: SILENCE, times=1000)
    p = producer(broker, buffer_memory=2000, batch_size=1000)
    futures = [p.send("t", bytes(900)) for _ in range(2)]
    output: list[BaseException] = []

    def send() -> None:
        try:
            p.send("t", bytes(900))
        except IllegalStateError as error:
            output.append(error)

    waiting = [threading.Thread(target=send) for _ in range(3)]
    for thread in waiting:
        thread.start()
    while p._core.accumulator.pool.queued < 3:
        time.sleep(0.001)
    p.close(timeout=0)
    for thread in waiting:
        thread.join(5)
    assert ["closed" in str(error) for error in output] == [True] * 3
    assert all(future.failed() for future in futures)
    assert_no_memory_in_use(p)


def test_send_that_waits_for_a_topic_fails_at_close(broker: ScriptedBroker) -> None:
    p = producer(broker)
    output: list[BaseException] = []

    def send() -> None:
        try:
            p.send("missing", b"v")
        except IllegalStateError as error:
            output.append(error)

    waiting = threading.Thread(target=send)
    waiting.start()
    broker.wait_for(lambda: bool(broker.requests))
    p.close(timeout=0)
    waiting.join(5)
    assert "closed" in str(output[0])


# Callbacks


def test_callback_may_close_the_producer(broker: ScriptedBroker) -> None:
    p = producer(broker)
    p.send("t", b"1").add_callback(lambda _: p.close())
    p._io._thread.join(10)
    assert not p._io._thread.is_alive()
    with pytest.raises(IllegalStateError):
        p.send("t", b"2")


@pytest.mark.parametrize("call", ["flush", "get", "partitions_for"])
def test_callback_that_waits_for_the_io_thread_raises_illegal_state(broker: ScriptedBroker, call: str) -> None:
    output: list[BaseException | None] = []
    done = threading.Event()

    def wait(_: Any) -> None:
        calls: dict[str, Callable[[], object]] = {
            "flush": p.flush,
            "get": lambda: p.send("t", b"2").get(),
            "partitions_for": lambda: p.partitions_for("missing"),
        }
        try:
            calls[call]()
        except IllegalStateError as error:
            output.append(error)
        done.set()

    with producer(broker) as p:
        p.send("t", b"1").add_callback(wait)
        assert done.wait(10)
        assert p.send("t", b"3").get(10).offset >= 1
    assert "callback" in str(output[0])


# Ctrl+C


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("waiting", ["memory", "flush", "get", "close", "metadata"])
def test_ctrl_c_interrupts_a_waiting_call_and_the_producer_can_be_closed(waiting: str) -> None:
    with ScriptedBroker() as broker:
        broker.add_topic("t")
        broker.on(ProduceRequest, lambda _: SILENCE, times=1000)
        p = producer(broker, buffer_memory=1000, batch_size=1000)
        future = p.send("t", bytes(800))
        calls: dict[str, Callable[[], Any]] = {
            "memory": lambda: p.send("t", bytes(800)),
            "flush": p.flush,
            "get": future.get,
            "close": p.close,
            "metadata": lambda: p.send("missing", b"v"),
        }
        with ctrl_c():
            calls[waiting]()
        begin = time.monotonic()
        p.close(timeout=0)
        assert time.monotonic() - begin < 1
        assert future.failed()
        assert_no_memory_in_use(p)


def test_flush_get_and_close_end_at_their_timeouts(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: SILENCE, times=1000)
    p = producer(broker)
    future = p.send("t", b"v")
    for call in (lambda: p.flush(0.02), lambda: future.get(0.02)):
        begin = time.monotonic()
        with pytest.raises(KafkaTimeoutError, match=r"0\.02 s"):
            call()
        assert time.monotonic() - begin < 1
    begin = time.monotonic()
    p.close(timeout=0.02)
    assert time.monotonic() - begin < 1


# No leaks


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("state", ["unused", "unreachable", "silent", "lost"])
def test_close_leaves_no_threads_and_descriptors(state: str) -> None:
    with ScriptedBroker() as broker:
        broker.add_topic("t")
        address = {"bootstrap_servers": "127.0.0.1:1"} if state == "unreachable" else {}
        p = producer(broker, max_block_ms=1000, **address)
        if state == "unreachable":
            with pytest.raises(KafkaTimeoutError):
                p.send("t", b"v")
        elif state != "unused":
            p.send("t", b"v").get(10)
            broker.on(ProduceRequest, lambda _: SILENCE if state == "silent" else DROP, times=1000)
            p.send("t", b"v")
        p.close(timeout=0)


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize(
    "invalid", [{"security_protocol": "SSL", "ssl_cafile": "/nowhere"}, {"key_serializer": "Avro"}]
)
def test_producer_that_cannot_be_created_leaves_no_threads_and_descriptors(invalid: dict[str, Any]) -> None:
    with pytest.raises(KafkaError):
        KafkaProducer(bootstrap_servers="127.0.0.1:1", metric_reporters="logging", **invalid)


# Fork


def test_forked_child_raises_illegal_state_and_the_parent_continues(broker: ScriptedBroker) -> None:
    def in_the_child(p: KafkaProducer, pending: Any) -> int:
        for call in (lambda: p.send("t", b"1"), p.flush, pending.get, lambda: p.partitions_for("t")):
            try:
                call()
            except IllegalStateError as error:
                if "fork" not in str(error):
                    return 2
            else:
                return 3
        p.metrics()
        p.close()
        return 0

    # Another thread sends at the same time, so that locks are held during some of the forks.
    with producer(broker) as p:
        stop = threading.Event()

        def send() -> None:
            while not stop.is_set():
                p.send("t", b"1").get(10)

        sending = threading.Thread(target=send)
        sending.start()
        broker.on(ProduceRequest, lambda request: None)
        for _ in range(10):
            pending = p.send("t", b"1")
            child = os.fork()
            if child == 0:
                signal.alarm(5)
                code = 9
                try:
                    code = 0 if pending.done() else in_the_child(p, pending)
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        stop.set()
        sending.join(10)
        assert p.send("t", b"1").get(10).offset > 0


# asyncio


async def in_time(test: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(20):
        await test


@pytest.mark.parametrize("seed", range(8))
def test_asyncio_tasks_cancelled_at_any_moment_release_all_memory(broker: ScriptedBroker, seed: int) -> None:
    chance = random.Random(seed)
    broker.on(ProduceRequest, lambda _: chance.choice([None, None, failure(6), SILENCE, DROP]), times=40)

    async def work(p: aio.KafkaProducer, futures: list[Any]) -> None:
        for _ in range(30):
            futures.append(await p.send("t", bytes(chance.choice([10, 300, 900]))))
            if chance.random() < 0.2:
                await p.flush()
            if chance.random() < 0.2:
                await futures[-1]

    async def main() -> None:
        p = aio.KafkaProducer(**options(broker, buffer_memory=3000, batch_size=1000, request_timeout_ms=100))
        futures: list[Any] = []
        await p.start()
        tasks = [asyncio.ensure_future(work(p, futures)) for _ in range(4)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(chance.random() * 0.01)
            chance.choice(tasks).cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result is None or isinstance(result, (asyncio.CancelledError, KafkaError)), result
        for _ in range(3):
            stopping = asyncio.ensure_future(p.stop())
            await asyncio.sleep(chance.random() * 0.01)
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
        await p.stop()
        assert_no_memory_in_use(p)
        assert p._core.accumulator.flushing == 0
        assert all(future.done() for future in futures)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(in_time(main()))


def test_stop_after_a_cancelled_stop_completes(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: SILENCE, times=100)

    async def main() -> None:
        p = aio.KafkaProducer(**options(broker))
        await p.start()
        future = await p.send("t", b"v")
        stopping = asyncio.ensure_future(p.stop())
        await asyncio.sleep(0.01)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        await p.stop()
        assert future.failed()
        assert_no_memory_in_use(p)

    asyncio.run(in_time(main()))


@pytest.mark.option("sasl.oauth.token.provider")
def test_send_raises_the_error_of_the_token_provider(broker: ScriptedBroker) -> None:
    def down() -> str:
        raise RuntimeError("vault is down")

    offered = SaslHandshakeResponse(mechanisms=["OAUTHBEARER"])
    broker.on(SaslHandshakeRequest, lambda _: offered, times=100_000)
    sasl = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": down}
    with (
        producer(broker, **sasl, max_block_ms=60_000) as p,
        pytest.raises(SaslAuthenticationFailedError, match="RuntimeError: vault is down"),
    ):
        p.send("t", b"x").get(10)


# Order of concurrent calls


def sent_in_order(broker: ScriptedBroker) -> list[bytes]:
    return [r.value or b"" for batch in broker.topics["t"][0] for r in records(batch)]


def test_aio_send_that_waits_for_its_topic_is_not_overtaken(broker: ScriptedBroker) -> None:
    async def main() -> None:
        async with aio.KafkaProducer(**options(broker, linger_ms=1)) as p:
            later: list[asyncio.Task[Any]] = []

            def on_metadata(_: object) -> None:  # the topic is known, and the first call has not continued yet
                if not later:
                    later.append(asyncio.create_task(p.send("t", b"2", partition=0)))

            p._core.metadata.listeners.append(on_metadata)
            first = asyncio.create_task(p.send("t", b"1", partition=0))
            await first
            await asyncio.gather(*later)
            await p.flush()

    asyncio.run(in_time(main()))
    assert sent_in_order(broker) == [b"1", b"2"]


def test_aio_send_that_waits_for_memory_is_not_overtaken_by_a_smaller_record(broker: ScriptedBroker) -> None:
    async def main() -> None:
        small = options(broker, buffer_memory=1000, batch_size=1000, linger_ms=50)
        async with aio.KafkaProducer(**small) as p:
            await p.send("t", b"0" * 300, partition=0)
            large = asyncio.create_task(p.send("t", b"1" * 700, partition=0))
            while not p._core.accumulator.pool.queued:
                await asyncio.sleep(0)
            await asyncio.gather(large, p.send("t", b"2", partition=0))
            await p.flush()
            assert not p._turns.is_waiting(("t", 0))

    asyncio.run(in_time(main()))
    assert sent_in_order(broker) == [b"0" * 300, b"1" * 700, b"2"]

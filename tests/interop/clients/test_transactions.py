"""Transactions of third-party clients, and Apache Kafka's tools for transactions, against our broker."""

from __future__ import annotations

import asyncio
import re
import uuid
from typing import Any

import pytest
from tests.interop.kafka_jars import run_tool

from ottla import KafkaProducer
from ottla.broker.embedded import Broker
from ottla.cli.main import main

pytestmark = pytest.mark.interop

TOOLS = "org.apache.kafka.tools."
SECONDS = 30.0


def name(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex[:8]}"


def tool(bootstrap: str, tool_name: str, *arguments: str) -> str:
    result = run_tool(TOOLS + tool_name, "--bootstrap-server", bootstrap, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


# librdkafka


def rdkafka_producer(bootstrap: str, transactional_id: str, **options: Any) -> Any:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    arguments = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **options}
    producer = confluent_kafka.Producer(arguments, logger=None)
    producer.init_transactions(SECONDS)
    return producer


def rdkafka_consumer(bootstrap: str, topic: str, group: str, isolation: str = "read_committed") -> Any:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": isolation,
        }
    )
    consumer.subscribe([topic])
    return consumer


def rdkafka_values(consumer: Any, count: int) -> list[bytes]:
    values: list[bytes] = []
    while len(values) < count:
        message = consumer.poll(SECONDS)
        assert message is not None, f"{len(values)} of {count} records came"
        assert message.error() is None, message.error()
        values.append(message.value())
    return values


@pytest.mark.compatibility("confluent-kafka", "transactions", "committed and rolled back transactions")
def test_librdkafka_read_committed_consumer_skips_aborted_records(bootstrap: str) -> None:
    topic = name("committed")
    producer = rdkafka_producer(bootstrap, name("tx"))
    remaining = []
    for number in range(6):
        producer.begin_transaction()
        values = [f"{number}-{i}".encode() for i in range(20)]
        for value in values:
            producer.produce(topic, value)
        if number % 2:
            producer.flush(SECONDS)
            producer.abort_transaction(SECONDS)
        else:
            producer.commit_transaction(SECONDS)
            remaining += values
    consumer = rdkafka_consumer(bootstrap, topic, name("g"))
    assert sorted(rdkafka_values(consumer, len(remaining))) == sorted(remaining)
    consumer.close()
    everything = rdkafka_consumer(bootstrap, topic, name("g"), "read_uncommitted")
    assert len(rdkafka_values(everything, 120)) == 120
    everything.close()


@pytest.mark.compatibility("confluent-kafka", "transactions", "offsets in transactions")
def test_librdkafka_commits_offsets_with_the_records_of_a_transaction(bootstrap: str) -> None:
    """Consume, transform, produce: only the input of an aborted transaction is read again."""
    source, target, group = name("in"), name("out"), name("g")
    feed = rdkafka_producer(bootstrap, name("feed"))
    feed.begin_transaction()
    for i in range(50):
        feed.produce(source, str(i).encode(), partition=0)
    feed.commit_transaction(SECONDS)
    producer = rdkafka_producer(bootstrap, name("tx"))
    for commits in (False, True, True):
        consumer = rdkafka_consumer(bootstrap, source, group)
        producer.begin_transaction()
        for value in rdkafka_values(consumer, 25):
            producer.produce(target, b"<" + value + b">")
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), SECONDS
        )
        if commits:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)
        consumer.close()
    reader = rdkafka_consumer(bootstrap, target, name("g"))
    assert sorted(rdkafka_values(reader, 50)) == sorted(b"<%d>" % i for i in range(50))
    reader.close()


@pytest.mark.compatibility("confluent-kafka", "transactions", "a zombie is fenced")
def test_librdkafka_zombie_producer_is_fenced(bootstrap: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    topic, transactional_id = name("fenced"), name("tx")
    zombie = rdkafka_producer(bootstrap, transactional_id)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie", partition=0)
    zombie.flush(SECONDS)
    successor = rdkafka_producer(bootstrap, transactional_id)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        zombie.commit_transaction(SECONDS)
    assert caught.value.args[0].fatal()
    successor.begin_transaction()
    successor.produce(topic, b"successor", partition=0)
    successor.commit_transaction(SECONDS)
    consumer = rdkafka_consumer(bootstrap, topic, name("g"))
    assert rdkafka_values(consumer, 1) == [b"successor"]
    consumer.close()


# aiokafka: the classic transactions


@pytest.mark.compatibility("aiokafka", "transactions", "committed and rolled back transactions")
def test_aiokafka_commits_and_aborts_transactions(bootstrap: str) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    topic, group = name("aio"), name("g")

    async def run() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name("tx")) as producer:
            for number in range(4):
                await producer.begin_transaction()
                for i in range(10):
                    await producer.send_and_wait(topic, b"%d-%d" % (number, i), partition=i % 2)
                offsets = {aiokafka.TopicPartition(topic, 0): number}
                await producer.send_offsets_to_transaction(offsets, group)
                if number % 2:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        async with consumer:
            values = [(await asyncio.wait_for(consumer.getone(), SECONDS)).value for _ in range(20)]
        assert sorted(values) == sorted(b"%d-%d" % (n, i) for n in (0, 2) for i in range(10))
        reader = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group)
        async with reader:
            assert await reader.committed(aiokafka.TopicPartition(topic, 0)) == 2

    asyncio.run(run())


# Java


@pytest.mark.compatibility("Kafka's tools", "transactions", "TransactionalMessageCopier")
def test_transactional_message_copier_copies_each_record_once_despite_aborts(bootstrap: str) -> None:
    source, target, transactional_id = name("in"), name("out"), name("copy")
    for topic in (source, target):
        tool(bootstrap, "TopicCommand", "--create", "--topic", topic, "--partitions", "1")
    load = ("--topic", source, "--num-records", "1000", "--record-size", "20", "--throughput", "-1")
    tool(bootstrap, "ProducerPerformance", *load, "--transactional-id", name("perf"), "--transaction-duration-ms", "20")
    arguments = [f"--broker-list={bootstrap}", f"--input-topic={source}", "--input-partition=0"]
    arguments += [f"--output-topic={target}", "--max-messages=1000", f"--consumer-group={name('g')}"]
    arguments += ["--transaction-size=50", f"--transactional-id={transactional_id}", "--enable-random-aborts"]
    copied = run_tool(TOOLS + "TransactionalMessageCopier", *arguments)
    assert copied.returncode == 0, copied.stdout + copied.stderr
    reading = ("--topic", target, "--from-beginning", "--timeout-ms", "5000", "--isolation-level", "read_committed")
    read = run_tool(TOOLS + "consumer.ConsoleConsumer", "--bootstrap-server", bootstrap, *reading)
    assert len(read.stdout.splitlines()) == 1000
    listed = tool(bootstrap, "TransactionsCommand", "list", "--transactional-id-pattern", "copy-.*")
    assert re.search(rf"{transactional_id}\s+0\s+\d+\s+CompleteCommit", listed)
    assert "perf-" not in listed
    assert "CompleteCommit" in tool(
        bootstrap, "TransactionsCommand", "describe", "--transactional-id", transactional_id
    )


@pytest.mark.compatibility("Kafka's tools", "transactions", "find and abort a hanging transaction")
def test_transactions_command_describes_and_aborts_an_open_transaction(bootstrap: str) -> None:
    topic, transactional_id = name("open"), name("tx")
    producer = rdkafka_producer(bootstrap, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"never", partition=0)
    producer.flush(SECONDS)
    described = tool(bootstrap, "TransactionsCommand", "describe", "--transactional-id", transactional_id)
    assert "Ongoing" in described
    assert f"{topic}-0" in described
    where = ("--topic", topic, "--partition", "0")
    producers = tool(bootstrap, "TransactionsCommand", "describe-producers", *where)
    assert producers.splitlines()[1].split()[-1] == "0"  # the start offset of the transaction
    tool(bootstrap, "TransactionsCommand", "abort", *where, "--start-offset", "0")
    producers = tool(bootstrap, "TransactionsCommand", "describe-producers", *where)
    assert producers.splitlines()[1].split()[-1] == "None"


@pytest.mark.compatibility("Kafka's tools", "transactions", "force a transaction to end")
def test_transactions_command_force_terminates_a_transaction(bootstrap: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    topic, transactional_id = name("open"), name("tx")
    producer = rdkafka_producer(bootstrap, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"never", partition=0)
    producer.flush(SECONDS)
    tool(bootstrap, "TransactionsCommand", "forceTerminateTransaction", "--transactionalId", transactional_id)
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(SECONDS)


def test_java_client_uses_classic_transactions_if_transaction_version_is_downgraded() -> None:
    with Broker({"transaction.state.log.num.partitions": 2}) as broker:
        bootstrap, topic = broker.bootstrap_servers, name("classic")
        tool(bootstrap, "FeatureCommand", "downgrade", "--feature", "transaction.version=0")
        described = tool(bootstrap, "FeatureCommand", "describe")
        assert re.search(r"transaction.version.*FinalizedVersionLevel: 0\s+Epoch: 1", described)
        load = ["--topic", topic, "--num-records", "500", "--record-size", "20", "--throughput", "-1"]
        load += ["--transactional-id", "perf", "--transaction-duration-ms", "10"]
        tool(bootstrap, "ProducerPerformance", *load)
        assert epoch_of(bootstrap, "perf") == 0
        tool(bootstrap, "FeatureCommand", "upgrade", "--feature", "transaction.version=2")
        tool(bootstrap, "ProducerPerformance", *load)
        assert epoch_of(bootstrap, "perf") > 1


def epoch_of(bootstrap: str, transactional_id: str) -> int:
    described = tool(bootstrap, "TransactionsCommand", "describe", "--transactional-id", transactional_id)
    return int(described.splitlines()[1].split()[3])


@pytest.mark.compatibility("Kafka's tools", "transactions", "TransactionsCommand, compared with ottla transactions")
def test_ottla_transactions_prints_the_output_of_kafka_transactions(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, prefix = name("open"), name("tx")
    at = ("--bootstrap-server", bootstrap)

    def open_transaction(number: int) -> KafkaProducer:
        producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{prefix}-{number}")
        producer.init_transactions()
        producer.begin_transaction()
        for partition in (number, 3):
            producer.send(topic, b"x", partition=partition).get(timeout=SECONDS)
        return producer

    def cells(text: str) -> list[list[str]]:
        return sorted(line.split("\t") for line in text.splitlines())

    def run_both(*arguments: str) -> tuple[list[list[str]], list[list[str]]]:
        """Return the cells that our tool and Kafka's print."""
        theirs = run_tool(TOOLS + "TransactionsCommand", *at, *arguments)
        assert theirs.returncode == 0, theirs.stdout + theirs.stderr
        assert main(["transactions", *at, *arguments]) == 0
        ours = capsys.readouterr().out
        return cells(ours), cells(theirs.stdout)

    with open_transaction(0) as committed:
        committed.commit_transaction()
    left = [open_transaction(1), open_transaction(2)]
    try:
        for same in (
            ("list", "--transactional-id-pattern", f"{prefix}.*"),
            ("list", "--transactional-id-pattern", f"{prefix}.*", "--duration-filter", "3600000"),
            ("describe-producers", "--topic", topic, "--partition", "3"),
            ("describe-producers", "--topic", topic, "--partition", "1", "--broker-id", "0"),
            ("describe-producers", "--topic", topic, "--partition", "5"),
            ("find-hanging", "--topic", topic, "--max-transaction-timeout", "0"),
        ):
            ours, theirs = run_both(*same)
            assert ours == theirs
        for number in (0, 1):
            ours, theirs = run_both("describe", "--transactional-id", f"{prefix}-{number}")
            assert ours[1][0].strip() == "CoordinatorId"
            for row in (ours[0], theirs[0]):
                row[7:9] = [str(len(row[7])), *sorted(row[8].split(","))]  # the tools run one after the other
            assert ours == theirs
        assert main(["transactions", *at, "abort", "--topic", topic, "--partition", "1", "--start-offset", "0"]) == 0
        ours, theirs = run_both("describe-producers", "--topic", topic, "--partition", "1")
        assert ours == theirs
        assert ours[0][5].strip() == "None"
    finally:
        for producer in left:
            producer.close(timeout=0)


@pytest.mark.compatibility("Kafka's tools", "transactions", "wrong use, compared with ottla transactions")
@pytest.mark.parametrize(
    "wrong",
    [
        ("abort", "--topic", "t", "--partition", "0"),
        ("abort", "--topic", "t", "--partition", "0", "--producer-id", "1"),
        ("find-hanging",),
        ("find-hanging", "--partition", "0"),
        ("find-hanging", "--broker-id", "0", "--partition", "0"),
    ],
)
def test_ottla_transactions_rejects_arguments_that_kafka_transactions_rejects(
    bootstrap: str, wrong: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--bootstrap-server", bootstrap)
    theirs = run_tool(TOOLS + "TransactionsCommand", *at, *wrong)
    assert theirs.returncode == main(["transactions", *at, *wrong]) == 1
    assert capsys.readouterr().err == f"ottla transactions: {theirs.stderr}"

"""`ottla transactions` against a broker in this process, with an open transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ottla import Broker, KafkaAdminClient, KafkaProducer, NewTopic, TopicPartition
from ottla.cli.framework.output import tabbed
from ottla.cli.main import main
from ottla.cli.transactions import hanging_transactions
from ottla.cli.transactions.hanging_transactions import OpenTransaction, hanging
from ottla.client.admin.transactions import AbortTransactionSpec, ProducerState, TransactionDescription
from ottla.errors import KafkaError


@pytest.fixture
def at(ottla_broker: Broker) -> tuple[str, ...]:
    return "transactions", "--bootstrap-server", ottla_broker.bootstrap_servers


@pytest.fixture
def producer(ottla_broker: Broker, topic: str) -> Iterator[KafkaProducer]:
    """A producer with an open transaction in partition 1 from offset 1. The topic is its transactional id."""
    with KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as plain:
        plain.send(topic, b"before", partition=1).get(timeout=30)
    transactional_producer = KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers, transactional_id=topic)
    transactional_producer.init_transactions()
    transactional_producer.begin_transaction()
    transactional_producer.send(topic, b"open", partition=1).get(timeout=30)
    yield transactional_producer
    transactional_producer.close(timeout=0)


def rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    result: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return result


def start_offsets(at: tuple[str, ...], topic: str, capsys: pytest.CaptureFixture[str]) -> list[object]:
    """Return the start offsets of the transactions of partition 1's producers."""
    assert main([*at, "describe-producers", "--topic", topic, "--partition", "1", "--json"]) == 0
    return [row["start_offset"] for row in rows(capsys)]


def test_list_prints_an_open_transaction(
    at: tuple[str, ...], topic: str, producer: KafkaProducer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, "list", "--transactional-id-pattern", topic]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert header.split("\t")[:-1] == [
        name.ljust(width)
        for name, width in zip(
            ("TransactionalId", "Coordinator", "ProducerId", "TransactionState"),
            (max(15, len(topic)), 11, 10, 16),
            strict=True,
        )
    ]
    assert [cell.strip() for cell in line.split("\t")][0::3] == [topic, "Ongoing"]
    assert main([*at, "list", "--duration-filter", "3600000", "--json"]) == 0
    assert topic not in [row["transactional_id"] for row in rows(capsys)]


def test_describe_prints_state_and_partitions_of_a_transactional_id(
    at: tuple[str, ...], topic: str, producer: KafkaProducer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, "describe", "--transactional-id", topic, "--json"]) == 0
    (output,) = rows(capsys)
    assert (output["state"], output["topic_partitions"]) == ("Ongoing", [f"{topic}-1"])
    assert isinstance(output["duration_ms"], int)
    producer.commit_transaction()
    assert main([*at, "describe", "--transactional-id", topic]) == 0
    *_, state, timeout, _, _, partitions, end = capsys.readouterr().out.splitlines()[1].split("\t")
    assert (state.strip(), timeout.strip(), partitions.strip(), end) == ("CompleteCommit", "60000", "", "")


def test_abort_by_start_offset_aborts_the_transaction(
    at: tuple[str, ...], topic: str, producer: KafkaProducer, capsys: pytest.CaptureFixture[str]
) -> None:
    partition_arguments = ("--topic", topic, "--partition", "1")
    assert sorted(map(str, start_offsets(at, topic, capsys))) == ["1", "None"]
    assert main([*at, "abort", *partition_arguments, "--start-offset", "0"]) == 1
    assert f"any open transactions starting at offset 0 on partition {topic}-1" in capsys.readouterr().err
    assert main([*at, "abort", *partition_arguments, "--start-offset", "1"]) == 0
    assert start_offsets(at, topic, capsys) == [None, None]


def test_abort_by_producer_id_aborts_the_transaction(
    at: tuple[str, ...], topic: str, producer: KafkaProducer, capsys: pytest.CaptureFixture[str]
) -> None:
    partition_arguments = ("--topic", topic, "--partition", "1")
    assert main([*at, "describe-producers", *partition_arguments, "--json"]) == 0
    (open_transaction,) = [row for row in rows(capsys) if row["start_offset"] == 1]
    names = {
        "--producer-id": "producer_id",
        "--producer-epoch": "producer_epoch",
        "--coordinator-epoch": "coordinator_epoch",
    }
    value = [text for option, name in names.items() for text in (option, str(open_transaction[name]))]
    assert main([*at, "abort", *partition_arguments, *value]) == 0
    assert start_offsets(at, topic, capsys) == [None, None]


@pytest.mark.parametrize(("output", "sent"), [("-1", 0), ("3", 3)])
def test_abort_replaces_coordinator_epoch_minus_one_by_zero(
    at: tuple[str, ...], output: str, sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs: list[AbortTransactionSpec] = []
    monkeypatch.setattr(KafkaAdminClient, "abort_transaction", lambda admin, spec: specs.append(spec))
    value = ("--producer-id", "7", "--producer-epoch", "1", "--coordinator-epoch", output)
    assert main([*at, "abort", "--topic", "t", "--partition", "2", *value]) == 0
    assert specs == [AbortTransactionSpec(TopicPartition("t", 2), 7, 1, sent)]


def test_force_terminate_fences_the_producer(
    at: tuple[str, ...], topic: str, producer: KafkaProducer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, "forceTerminateTransaction", "--transactionalId", topic]) == 0
    assert capsys.readouterr().out == ""
    with pytest.raises(KafkaError):
        producer.commit_transaction()


def test_find_hanging_omits_transactions_known_to_the_coordinator(
    at: tuple[str, ...], topic: str, producer: KafkaProducer, capsys: pytest.CaptureFixture[str]
) -> None:
    for scope in (("--topic", topic), ("--topic", topic, "--partition", "1"), ("--broker-id", "0")):
        assert main([*at, "find-hanging", *scope, "--max-transaction-timeout", "0"]) == 0
        out = capsys.readouterr().out
        assert out.startswith("Topic")
        assert topic not in out


def test_find_hanging_reports_transactions_unknown_to_the_coordinator(
    at: tuple[str, ...],
    topic: str,
    producer: KafkaProducer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hanging_transactions, "_descriptions", lambda admin, ids: {})
    assert main([*at, "find-hanging", "--topic", topic, "--json"]) == 0
    assert rows(capsys) == []  # not open for long enough
    assert main([*at, "find-hanging", "--topic", topic, "--max-transaction-timeout", "0", "--json"]) == 0
    (output,) = rows(capsys)
    assert (output["topic"], output["partition"], output["start_offset"], output["duration_minutes"]) == (
        topic,
        1,
        1,
        0,
    )
    assert main([*at, "find-hanging", "--broker-id", "99", "--max-transaction-timeout", "0", "--json"]) == 0
    assert rows(capsys) == []


def test_hanging_transaction_lacks_a_coordinator_entry_for_its_partition() -> None:
    def open_transaction_of(number: int) -> OpenTransaction:
        return OpenTransaction(TopicPartition("t", number), ProducerState(number, 0, 0, 0, None, 5))

    def described(*numbers: int) -> TransactionDescription:
        partitions = frozenset(TopicPartition("t", n) for n in numbers)
        return TransactionDescription(0, "Ongoing", 1, 0, 60_000, 1, partitions)

    existing, other_partition, removed, without_id = (
        open_transaction_of(1),
        open_transaction_of(2),
        open_transaction_of(3),
        open_transaction_of(4),
    )
    ids = {1: "one", 2: "two", 3: "three"}
    descriptions = {"one": described(0, 1), "two": described(1)}
    result = hanging([existing, other_partition, removed, without_id], ids, descriptions)
    assert result == [other_partition, removed, without_id]


def test_table_columns_have_the_width_of_the_widest_cell() -> None:
    assert tabbed(("Id", "State"), [("123", "x")]) == ["Id \tState\t", "123\tx    \t"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("abort", "--topic", "t", "--partition", "0"), "must be identified either with --start-offset"),
        (("abort", "--topic", "t", "--partition", "0", "--producer-id", "1"), "argument --producer-epoch"),
        (
            ("abort", "--topic", "t", "--partition", "0", "--producer-id", "1", "--producer-epoch", "1"),
            "argument --coordinator-epoch",
        ),
        (("find-hanging",), "requires either --topic or --broker-id"),
        (("find-hanging", "--broker-id", "0", "--partition", "0"), "--partition argument requires --topic"),
        (("describe-producers", "--topic", "t", "--partition", "-1"), "there can be no such partition"),
        (("describe", "--transactional-id", "nowhere"), "nowhere"),
    ],
)
def test_invalid_arguments_are_rejected_in_one_line(
    at: tuple[str, ...], arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, *arguments]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_describe_producers_of_a_follower_uses_its_replica(
    ottla_cluster: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("transactions", "--bootstrap-server", ottla_cluster.bootstrap_servers)
    with KafkaAdminClient(bootstrap_servers=ottla_cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("visits", 1, 2)])
        replicas = admin.describe_topics(["visits"])["visits"].partitions[0].replicas
    with KafkaProducer(bootstrap_servers=ottla_cluster.bootstrap_servers, acks="all") as producer:
        producer.send("visits", b"1").get(timeout=30)
    for broker in replicas:
        assert (
            main([*at, "describe-producers", "--topic", "visits", "--partition", "0", "--broker-id", str(broker)]) == 0
        )
        assert len(capsys.readouterr().out.splitlines()) == 2, "the header and the producer"
    for broker in range(3):
        assert main([*at, "find-hanging", "--broker-id", str(broker)]) == 0
    (other,) = set(range(3)) - set(replicas)
    assert main([*at, "describe-producers", "--topic", "visits", "--partition", "0", "--broker-id", str(other)]) == 1
    assert "visits-0" in capsys.readouterr().err

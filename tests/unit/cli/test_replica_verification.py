"""`ottla replica-verification`: differences between replicas, and the offset up to which they are compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace, TracebackType
from typing import Any

import pytest
from tests.unit.broker.broker_client import batch

from ottla.cli.framework import admin_command
from ottla.cli.framework.command import CommandFailedError
from ottla.cli.main import main
from ottla.cli.storage.replica_verification import ReplicaVerifier
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.client.admin.replica_records import ReplicaRecords
from ottla.errors import BrokerNotAvailableError, KafkaError
from ottla.model import TopicPartition
from ottla.records.batch import assign

TP = TopicPartition("t", 0)
ONE, TWO = (TopicPartitionReplica("t", 0, broker) for broker in (1, 2))
Fetched = dict[TopicPartitionReplica, ReplicaRecords]


def records(*values: bytes, base: int = 0, high_watermark: int | None = None) -> ReplicaRecords:
    """Return one batch for each value."""
    data = b""
    for offset, value in enumerate(values, base):
        one = batch(value, timestamp=5)
        assign(one, 0, offset, 0)
        data += one
    return ReplicaRecords(base + len(values) if high_watermark is None else high_watermark, data)


def verifier(offset: int = 0) -> ReplicaVerifier:
    return ReplicaVerifier([TWO, ONE], {TP: offset})


def test_equal_replicas_are_compared_up_to_the_lowest_high_watermark() -> None:
    compared = verifier()
    fetched = {ONE: records(b"a", b"b", b"c"), TWO: records(b"a", b"b", b"c", high_watermark=2)}
    assert list(compared.verify(fetched)) == []
    assert compared.next_offsets() == {ONE: 2, TWO: 2}
    assert compared.lag(fetched) == (1, TP, 2)
    behind = {ONE: records(b"c", base=2), TWO: records(base=2)}
    assert list(compared.verify(behind)) == []
    assert compared.lag(behind) == (1, TP, 2)


def test_different_checksum_is_reported_and_later_batches_are_compared() -> None:
    compared = verifier()
    first, second = records(b"a", b"b", b"c"), records(b"a", b"x", b"c")
    (line,) = compared.verify({ONE: first, TWO: second})
    crc = r"checksum \d+"
    assert re.fullmatch(f"partition t-0 has unmatched checksum at offset 1; replica 1's {crc}; replica 2's {crc}", line)
    assert compared.next_offsets()[ONE] == 3


def test_different_offset_ends_the_verification() -> None:
    compared = verifier()
    with pytest.raises(CommandFailedError, match="replica 1's offset 0 doesn't match replica 2's offset 1"):
        list(compared.verify({ONE: records(b"a", b"b"), TWO: records(b"b", base=1)}))


def test_partition_waits_for_an_unavailable_replica() -> None:
    compared = verifier()
    assert list(compared.verify({ONE: records(b"a")})) == []
    assert compared.next_offsets() == {ONE: 0, TWO: 0}
    assert compared.lag({ONE: records(b"a")}) == (1, TP, 0)


class Admin:
    """A topic with two replicas. Each fetch returns the next of `responses`, then fetches fail."""

    responses: Iterator[Fetched]
    failures: dict[Any, KafkaError]

    def __init__(self, configs: dict[str, Any]) -> None:
        pass

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def list_topics(self) -> list[str]:
        return ["t", "other"]

    def describe_topics(self, names: list[str]) -> dict[str, Any]:
        partitions = [SimpleNamespace(partition=0, replicas=[1, 2])]
        return {name: SimpleNamespace(partitions=partitions) for name in names}

    def list_offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Any]:
        offsets = {-2: 0, -1: 2}
        return {tp: SimpleNamespace(offset=offsets.get(time, -1)) for tp, time in times.items()}

    def fetch_replicas(self, offsets: Fetched, *, errors: dict[Any, KafkaError], **limits: int) -> Fetched:
        errors.update(self.failures)
        response = next(self.responses, None)
        if response is None:
            raise BrokerNotAvailableError(f"the end at {set(offsets.values())}")
        return response


Run = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setattr(admin_command, "KafkaAdminClient", Admin)

    def call(*arguments: str, responses: list[Fetched], failures: dict[Any, KafkaError] | None = None) -> Any:
        Admin.responses, Admin.failures = iter(responses), failures or {}
        code = main(["replica-verification", "--broker-list", "127.0.0.1:1", "--max-wait-ms", "1", *arguments])
        printed = capsys.readouterr()
        lines = [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: ", "", line) for line in printed.out.splitlines()]
        return code, lines, printed.err

    return call


def test_verification_reports_lag_and_differences(run: Run) -> None:
    equal, other = {ONE: records(b"a"), TWO: records(b"a")}, {ONE: records(b"b", base=1), TWO: records(b"c", base=1)}
    topics = ("--topics-include", "t", "--time", "-2", "--report-interval-ms", "0")
    code, lines, error = run(*topics, responses=[equal, other, {}])
    _, first, difference, second, third = lines
    assert lines[0] == "verification process is started"
    assert first == "max lag is 0 for partition t-0 at offset 1 among 1 partitions"
    assert difference.startswith("partition t-0 has unmatched checksum at offset 1")
    assert second == first.replace("offset 1", "offset 2")
    assert third == "max lag is -1 for partition null at offset -1 among 1 partitions"
    assert (code, "the end at {2}" in error) == (1, True)


@pytest.mark.parametrize("time", ["-1", "1700000000000"])
def test_verification_starts_at_the_end_for_times_after_the_last_record(time: str, run: Run) -> None:
    code, _, error = run("--topics-include", "t", "--time", time, responses=[])
    assert (code, "the end at {2}" in error) == (1, True)


def test_replicas_with_different_offsets_end_the_command(run: Run) -> None:
    responses = [{ONE: records(b"a"), TWO: records(b"b", base=1)}]
    code, lines, error = run("--topics-include", "t", "--time", "-2", responses=responses)
    assert (code, lines) == (1, ["verification process is started"])
    assert "doesn't match" in error


def test_failures_are_reported_once(run: Run) -> None:
    _, _, error = run("--topics-include", "t", responses=[{}, {}], failures={TWO: BrokerNotAvailableError("away")})
    assert error.count("away") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--topics-include", "none"), "No topics found"),
        (("--topics-include", "["), "invalid regex"),
        (("--fetch-size", "0"), "--fetch-size should be greater than zero"),
    ],
)
def test_wrong_usage_is_rejected(arguments: tuple[str, ...], message: str, run: Run) -> None:
    code, _, error = run(*arguments, responses=[])
    assert (code, message in error) == (1, True)

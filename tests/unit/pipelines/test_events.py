"""Events of a replay: sequence numbers, partitions and completion after a kill."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import MalformedMessageError
from ottla.model import TopicPartition
from ottla_pipelines.catalog import FLIGHTS, WEATHER
from ottla_pipelines.ingest.events import event, is_missing, number, partition_for, sequence_of


def generated_events(count: int) -> Iterator[Any]:
    for i in range(count):
        if i % 3:
            yield event(FLIGHTS, f"N{i % 7}" if i % 5 else None, {"row": i}, 1000 + i)
        else:
            yield event(WEATHER, ["EWR", "JFK", "LGA"][i % 9 // 3], {"row": i}, 1000 + i)


def test_sequence_number_is_the_first_field_of_the_value() -> None:
    (first, second) = number(iter([event(FLIGHTS, "N1", {"row": 5, "ü": None}, 7)] * 2))
    assert json.loads(second.value) == {"seq": 1, "row": 5, "ü": None}
    assert (sequence_of(first.value), sequence_of(second.value)) == (0, 1)
    assert (first.topic, first.key, first.timestamp_ms) == ("flights", b"N1", 7)


@pytest.mark.parametrize("value", [None, b"", b'{"a":1}', b'{"seq":}', b'{"seq":-1,"a":1}'])
def test_record_without_sequence_number_is_rejected(value: bytes | None) -> None:
    with pytest.raises(MalformedMessageError, match="not an event of a replay"):
        sequence_of(value)


def test_keys_are_partitioned_as_by_kafka() -> None:
    # The second number is the result of Java's Utils.murmur2 for these keys.
    assert partition_for(b"21", 0, 1000) == (-973932308 & 0x7FFFFFFF) % 1000
    assert partition_for(b"foobar", 0, 1000) == (-790332482 & 0x7FFFFFFF) % 1000


def test_events_without_key_are_distributed_round_robin() -> None:
    assert [partition_for(None, seq, 3) for seq in range(4)] == [0, 1, 2, 0]


@given(
    st.dictionaries(st.sampled_from([(t, p) for t in ("flights", "weather") for p in range(4)]), st.integers(0, 200))
)
def test_killed_replay_is_completed_from_any_prefix_of_each_partition(length: dict[tuple[str, int], int]) -> None:
    whole = list(number(generated_events(200)))
    partitions: dict[TopicPartition, list[int]] = {}
    for e in whole:
        partitions.setdefault(TopicPartition(e.topic, e.partition), []).append(e.seq)
    # The records that had arrived when the replay was killed: a prefix of each partition.
    arrived = {tp: seqs[: length.get((tp.topic, tp.partition), 0)] for tp, seqs in partitions.items()}
    last = {tp: seqs[-1] for tp, seqs in arrived.items() if seqs}
    for e in number(generated_events(200)):
        if is_missing(e, last):
            arrived[TopicPartition(e.topic, e.partition)].append(e.seq)
    assert arrived == partitions

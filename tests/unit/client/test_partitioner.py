"""Partitioning: hashes of keys, adaptive choice without a key, and user partitioners."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ottla.client.producer.partitioner import (
    PartitionRequest,
    RoundRobin,
    UserPartitioner,
    choose_partition,
    partition_for_key,
)
from ottla.records.murmur2 import murmur2


@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_equals_javas_hash(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed & 0xFFFFFFFF


def test_key_is_partitioned_by_its_positive_hash() -> None:
    assert partition_for_key(b"foobar", 10) == (-790332482 & 0x7FFFFFFF) % 10


def test_partitions_with_a_longer_queue_are_chosen_less_often() -> None:
    chosen = Counter(choose_partition([0, 1, 2], [9, 0, 0].__getitem__) for _ in range(2000))
    assert chosen[0] < chosen[1] / 3
    assert chosen[0] < chosen[2] / 3
    assert set(chosen) == {0, 1, 2}


def test_choice_among_many_partitions_compares_few_queues() -> None:
    requests: list[int] = []

    def queued(partition: int) -> int:
        requests.append(partition)
        return 9 if partition < 500 else 0

    chosen = Counter(choose_partition(range(1000), queued) for _ in range(3000))
    assert len(requests) <= 3000 * 16
    assert len(chosen) > 600
    assert sum(n for partition, n in chosen.items() if partition < 500) < 3000 / 5


def test_round_robin_takes_turns_per_topic() -> None:
    turns = RoundRobin()
    assert [turns.partition("a", [3, 5]) for _ in range(3)] == [3, 5, 3]
    assert turns.partition("b", [3, 5]) == 3


def partition_request(partitions: int = 3, available: tuple[int, ...] = (0, 2)) -> PartitionRequest:
    return PartitionRequest("t", "key", b"key", "value", b"value", list(range(partitions)), list(available), "cluster")


def test_user_partitioner_may_be_a_function_or_have_the_method_of_ottla_or_java() -> None:
    class OttlaStyle:
        def partition(self, topic: str, key: bytes | None, partitions: list[int]) -> int:
            return [topic, key].index(b"key")

    class JavaStyle:
        def partition(self, topic: Any, key: Any, key_bytes: Any, value: Any, value_bytes: Any, cluster: Any) -> int:
            return (
                2
                if (key, key_bytes, value, value_bytes, cluster) == ("key", b"key", "value", b"value", "cluster")
                else 0
            )

    assert UserPartitioner(lambda key, partitions, available: available[1], {}).partition(partition_request()) == 2
    assert UserPartitioner(OttlaStyle, {}).partition(partition_request()) == 1
    assert UserPartitioner(JavaStyle(), {}).partition(partition_request()) == 2


@pytest.mark.parametrize("chosen", [3, -1, "0", True, None])
def test_invalid_partition_of_a_user_partitioner_raises_value_error(chosen: Any) -> None:
    with pytest.raises(ValueError, match="partitions 0 to 2"):
        UserPartitioner(lambda *_: chosen, {}).partition(partition_request())


def test_user_partitioner_gets_configs_new_batches_and_close() -> None:
    seen: list[Any] = []

    class Recording:
        def configure(self, configs: Any) -> None:
            seen.append(configs)

        def partition(self, topic: str, key: bytes | None, partitions: list[int]) -> int:
            return len(seen) - 1

        def on_new_batch(self, topic: str, cluster: Any, previous: int) -> None:
            seen.append((topic, cluster, previous))

        def close(self) -> None:
            seen.append("closed")

    partitioner = UserPartitioner(Recording, {"acks": "all"})
    assert partitioner.partition(partition_request()) == 0
    assert partitioner.partition_for_new_batch(partition_request(), 0) == 1
    partitioner.close()
    assert seen == [{"acks": "all"}, ("t", "cluster", 0), "closed"]

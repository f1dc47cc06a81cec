from __future__ import annotations

from collections import Counter

import pytest

from ottla.client.partitioner import RoundRobin, StickyPartition, ask_custom, choose_partition, partition_for_key
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
def test_the_hash_is_javas(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed & 0xFFFFFFFF


def test_a_key_has_its_partition() -> None:
    assert partition_for_key(b"foobar", 10) == (-790332482 & 0x7FFFFFFF) % 10


def test_records_stay_with_a_partition_until_a_batch_has_gone_there() -> None:
    sticky = StickyPartition(100)
    turns = iter(range(10))
    assert [sticky.next(40, lambda: next(turns)) for _ in range(7)] == [0, 0, 0, 1, 1, 1, 2]


def test_partitions_with_a_longer_queue_are_chosen_less_often() -> None:
    chosen = Counter(choose_partition([0, 1, 2], [9, 0, 0].__getitem__) for _ in range(2000))
    assert chosen[0] < chosen[1] / 3
    assert chosen[0] < chosen[2] / 3
    assert set(chosen) == {0, 1, 2}


def test_many_partitions_are_all_chosen_and_few_of_them_compared() -> None:
    asked: list[int] = []

    def queued(partition: int) -> int:
        asked.append(partition)
        return 9 if partition < 500 else 0

    chosen = Counter(choose_partition(range(1000), queued) for _ in range(3000))
    assert len(asked) <= 3000 * 16
    assert len(chosen) > 600
    assert sum(n for partition, n in chosen.items() if partition < 500) < 3000 / 5


def test_round_robin_takes_turns_per_topic() -> None:
    turns = RoundRobin()
    assert [turns.partition("a", [3, 5]) for _ in range(3)] == [3, 5, 3]
    assert turns.partition("b", [3, 5]) == 3


def test_a_users_partitioner_is_a_function_or_an_object() -> None:
    class Java:
        def partition(self, topic: str, key: bytes | None, partitions: list[int]) -> int:
            return partitions[-1]

    assert ask_custom(lambda key, every, available: available[0], "t", b"k", [0, 1, 2], [1]) == 1
    assert ask_custom(Java(), "t", b"k", [0, 1, 2], [1]) == 2
    with pytest.raises(ValueError, match="chose 7"):
        ask_custom(lambda key, every, available: 7, "t", b"k", [0, 1], [0])

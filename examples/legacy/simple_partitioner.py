"""The partitioner of the page_visits example: the partition is the number after the last dot of an address, modulo the
number of partitions."""

from collections.abc import Mapping
from typing import Any


class SimplePartitioner:
    """`192.168.2.17` of 5 partitions goes to partition 2; a key without a dot goes to partition 0."""

    def __init__(self, props: Mapping[str, Any]) -> None:
        """Accept the producer's options, which this partitioner does not need."""

    def partition(self, key: str, num_partitions: int) -> int:
        """Return the partition of a key."""
        address, dot, number = key.rpartition(".")
        return int(number) % num_partitions if address and dot else 0

"""Names of partition directories: validation and parsing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import InvalidPartitionsError, InvalidTopicError
from ottla.model import TopicPartition
from ottla.names import MAX_PARTITION, directory_name, parse_directory_name
from ottla.storage.log_dir import LogDir

ILLEGAL = ["", ".", "..", "../x", "a/b", "/etc", "a\x00b", "a b", "ä", "x" * 250]


@pytest.mark.parametrize("name", ILLEGAL)
def test_directory_name_of_an_invalid_topic_is_rejected(name: str) -> None:
    with pytest.raises(InvalidTopicError):
        directory_name(TopicPartition(name, 0))


@pytest.mark.parametrize("partition", [-1, -(2**31), MAX_PARTITION + 1, 2**31 - 1])
def test_directory_name_of_an_invalid_partition_is_rejected(partition: int) -> None:
    with pytest.raises(InvalidPartitionsError):
        directory_name(TopicPartition("t", partition))


@pytest.mark.parametrize(
    "name", ["t", "t-", "-0", "..-0", "t-²", "t-٣", "t-00000000000", "t-007", "t-00", "t-2147483647", "a b-0"]
)
def test_directory_with_another_name_is_not_a_log(name: str, tmp_path: Path) -> None:
    assert parse_directory_name(name) is None
    (tmp_path / name).mkdir()
    with LogDir.open(tmp_path, broker_id=0) as log_dir:
        assert not log_dir.partitions()


def test_directory_name_is_parsed_to_the_same_partition() -> None:
    tp = TopicPartition("a-b.c_D", 12)
    assert parse_directory_name(directory_name(tp)) == tp

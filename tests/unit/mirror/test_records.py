"""Records in the formats of `org.apache.kafka.connect.mirror`. tests/interop reads them with Kafka."""

from __future__ import annotations

import pytest

from ottla.errors import SerializationError
from ottla.mirror.records import Checkpoint, Heartbeat, OffsetSync
from ottla.model import OffsetAndMetadata, TopicPartition

SYNC = OffsetSync(TopicPartition("t", 3), 10, 20)
CHECKPOINT = Checkpoint("g", TopicPartition("A.t", 1), 10, 20, "né")
HEARTBEAT = Heartbeat("A", "B", 1_700_000_000_000)


def test_records_have_the_bytes_of_kafka() -> None:
    assert SYNC.key() == b"\0\1t\0\0\0\3"
    assert SYNC.value() == (10).to_bytes(8, "big") + (20).to_bytes(8, "big")
    assert CHECKPOINT.key() == b"\0\1g\0\3A.t\0\0\0\1"
    assert CHECKPOINT.value() == b"\0\0" + SYNC.value() + b"\0\3n\xc3\xa9"
    assert HEARTBEAT.key() == b"\0\1A\0\1B"
    assert HEARTBEAT.value() == b"\0\0" + (1_700_000_000_000).to_bytes(8, "big")


@pytest.mark.parametrize("record", [SYNC, CHECKPOINT, HEARTBEAT])
def test_record_is_parsed_from_its_bytes(record: OffsetSync | Checkpoint | Heartbeat) -> None:
    assert type(record).parse(record.key(), record.value()) == record


@pytest.mark.parametrize("record", [SYNC, CHECKPOINT, HEARTBEAT])
def test_truncated_record_is_rejected(record: OffsetSync | Checkpoint | Heartbeat) -> None:
    for key, value in ((record.key()[:-1], record.value()), (record.key(), record.value()[:-1]), (None, None)):
        with pytest.raises(SerializationError):
            type(record).parse(key, value)


def test_record_of_a_later_version_is_rejected() -> None:
    with pytest.raises(SerializationError, match="version 1"):
        Heartbeat.parse(HEARTBEAT.key(), b"\0\1" + HEARTBEAT.value()[2:])


def test_checkpoint_has_the_offset_to_commit() -> None:
    assert CHECKPOINT.offset_and_metadata == OffsetAndMetadata(20, "né")

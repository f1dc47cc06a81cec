"""Records of classic groups and offsets in the format of Kafka."""

from __future__ import annotations

from ottla.coordinator.group.classic import records
from ottla.coordinator.group.classic.classic_group import ClassicGroup, ClassicGroupState, ClassicMember
from ottla.coordinator.group.classic.records import CommittedOffset
from ottla.coordinator.runtime.coordinator_log import partition_of
from ottla.model import TopicPartition


def test_offset_record_has_the_bytes_of_kafka() -> None:
    key, value = records.offset_record("g", TopicPartition("t", 3), CommittedOffset(42, 5, "m", 1_700_000_000_000))
    assert key.hex() == "0001" + "000167" + "000174" + "00000003"
    assert value is not None
    assert value.hex() == "0003" + "000000000000002a" + "00000005" + "00016d" + "0000018bcfe56800"
    assert records.read_key(key) == ("g", TopicPartition("t", 3))
    assert records.read_offset(value) == CommittedOffset(42, 5, "m", 1_700_000_000_000)


def test_offset_with_an_expiry_time_round_trips() -> None:
    _, value = records.offset_record("g", TopicPartition("t", 0), CommittedOffset(1, -1, "", 10, 20))
    assert value is not None
    assert records.read_offset(value) == CommittedOffset(1, -1, "", 10, 20)


def test_group_record_round_trips() -> None:
    group = ClassicGroup("g", ClassicGroupState.STABLE, 7, "consumer", "range")
    group.add(ClassicMember("m1", "i1", "c", "/1.2.3.4", 10, 60, {"range": b"sub"}, b"mine"))
    key, value = records.group_record(group, 123)
    assert records.read_key(key) == ("g", None)
    assert value is not None
    again = records.read_group("g", value, now=5.0)
    assert (again.generation, again.protocol, again.leader, again.state) == (7, "range", "m1", ClassicGroupState.STABLE)
    member = again.members["m1"]
    assert (member.instance_id, member.assignment, member.protocols) == ("i1", b"mine", {"range": b"sub"})
    assert member.deadline == 15.0
    assert again.static == {"i1": "m1"}


def test_unknown_key_is_ignored() -> None:
    assert records.read_key(b"\x00\x09whatever") is None


def test_partition_of_a_group_is_the_string_hash_of_java() -> None:
    # String.hashCode of "g" is 103, of "test-group" 1090377349, of "polygenelubricants" Integer.MIN_VALUE
    assert partition_of("g", 50) == 3
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("test-group", 50) == abs(java_hash("test-group")) % 50
    assert partition_of("gr\U0001f600up", 50) == abs(java_hash("gr\U0001f600up")) % 50


def java_hash(text: str) -> int:
    units = text.encode("utf-16-be")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[i : i + 2], "big")) % 2**32
    return value - 2**32 if value >= 2**31 else value

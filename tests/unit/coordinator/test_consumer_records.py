"""Records of consumer groups in the format of Apache Kafka 4.3."""

from __future__ import annotations

from uuid import UUID

from ottla.coordinator.group.common.consumer_member import Classic, ConsumerMember, MemberState
from ottla.coordinator.group.consumer import consumer_records as records
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from ottla.coordinator.group.consumer.consumer_records import is_known, replay
from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.model import TopicIdPartition

TOPIC = UUID(int=0x0102030405060708090A0B0C0D0E0F10)
PARTS = frozenset({TopicIdPartition(TOPIC, 1), TopicIdPartition(TOPIC, 2)})
TOPIC_HEX = "0102030405060708090a0b0c0d0e0f10"


def text(record: CoordinatorRecord) -> tuple[str, str | None]:
    return record.key.hex(), None if record.value is None else record.value.hex()


def test_member_record_has_the_bytes_of_kafka() -> None:
    member = ConsumerMember(
        "m", client_id="rdkafka", client_host="/127.0.0.1", regex="(^exchange.*)", rebalance_timeout_ms=300_000
    )
    key, value = text(records.member_record("g", member))
    assert key == "0005" + "000167" + "00016d"
    # from the log of Apache Kafka 4.3.1; the tag at the end marks a member without the classic protocol
    kafkas = b"\x00\x00\x00\x00\x08rdkafka\x0b/127.0.0.1\x01\x0e(^exchange.*)\x00\x04\x93\xe0\x00\x01\x00\x01\x00"
    assert value == kafkas.hex()


def test_classic_member_record_has_a_tagged_field() -> None:
    member = ConsumerMember("m", classic=Classic(10_000, (("range", b"\x01"),)))
    _, value = text(records.member_record("g", member))
    assert value is not None
    metadata = "01" + "00002710" + "02" + "06" + b"range".hex() + "02" + "01" + "00" + "00"
    assert value.endswith("01" + "00" + f"{len(metadata) // 2:02x}" + metadata)


def test_epoch_and_assignment_records_have_the_bytes_of_kafka() -> None:
    assert text(records.epoch_record("g", 5, 0)) == ("0003000167", "0000" + "00000005" + "00")
    assert text(records.epoch_record("g", 5, -2))[1] == "0000" + "00000005" + "010008" + "fffffffffffffffe"
    key, value = text(records.target_record("g", "m", PARTS))
    assert key == "0007" + "000167" + "00016d"
    assert value == "0000" + "02" + TOPIC_HEX + "03" + "00000001" + "00000002" + "00" + "00"
    member = ConsumerMember("m", epoch=3, previous_epoch=2, state=MemberState.UNREVOKED, assigned=PARTS)
    key, value = text(records.current_record("g", member))
    assert key == "0008" + "000167" + "00016d"
    assert (
        value == "0000" + "00000003" + "00000002" + "01" + "02" + TOPIC_HEX + "030000000100000002" + "00" + "01" + "00"
    )


def test_records_round_trip() -> None:
    group = ConsumerGroup("g")
    member = ConsumerMember(
        "m",
        instance_id="i",
        rack_id="r",
        client_id="c",
        client_host="/h",
        topics=frozenset({"t"}),
        regex="t.*",
        rebalance_timeout_ms=7,
        assignor="range",
        classic=Classic(1, (("a", b"x"), ("b", b"y"))),
    )
    written = [
        records.member_record("g", member),
        records.epoch_record("g", 4, 99),
        records.regex_record("g", "t.*", ResolvedRegex(frozenset({"t", "tt"}), 3, 5)),
        records.target_record("g", "m", PARTS),
        records.target_epoch_record("g", 4, 1),
        records.current_record("g", ConsumerMember("m", epoch=4, previous_epoch=3, assigned=PARTS)),
    ]
    for record in written:
        assert is_known(record.key)
        replay(group, *record)
    assert group.members["m"].description == member.description
    assert (group.epoch, group.metadata_hash, group.target_epoch) == (4, 99, 4)
    assert group.regexes == {"t.*": ResolvedRegex(frozenset({"t", "tt"}), 3, 5)}
    assert (group.targets, group.members["m"].assigned, set(group.owners)) == ({"m": PARTS}, PARTS, set(PARTS))
    assert group.static == {"i": "m"}


def test_topics_record_of_older_kafka_is_remembered_until_its_tombstone() -> None:
    group = ConsumerGroup("g")
    key = records.topics_tombstone("g").key
    replay(group, key, bytes.fromhex("0000" + "02" + TOPIC_HEX + "02" + "74" + "00000001" + "01" + "00" + "00"))
    assert group.has_topics_record
    replay(group, key, None)
    assert not group.has_topics_record


def test_unknown_record_keys_are_ignored() -> None:
    assert not is_known(b"\x00\x09x")
    assert not is_known(b"\x00\x02x")

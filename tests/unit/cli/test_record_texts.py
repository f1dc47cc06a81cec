"""Records of internal topics as text, from the decoders of `ottla dump-log` and formatters of the console consumer.

The expected texts are those of Kafka 4.3.1's tools.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from ottla.cli.console.record_format import formatter
from ottla.cli.framework import record_texts as texts
from ottla.errors import CorruptMessageError
from ottla.protocol.message import Data, encode
from ottla.protocol.messages import consumer_group_records as consumer
from ottla.protocol.messages import group_records as group
from ottla.protocol.messages import metadata_records as metadata
from ottla.protocol.messages import share_group_records as share
from ottla.protocol.messages import streams_group_records as streams
from ottla.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from ottla.protocol.versioned import encode_versioned
from ottla.protocol.wire import write_uvarint
from ottla.records.decoder import Record

TOPIC = UUID(int=1)
NAME = "AAAAAAAAAAAAAAAAAAAAAQ"
GROUPS = partial(texts.coordinator_texts, texts.GROUP_RECORDS)
SHARED = partial(texts.coordinator_texts, texts.SHARE_STATE_RECORDS)
OFFSET_KEY = encode_versioned(group.OffsetCommitKey(group="g", topic="t", partition=3), 1)
OFFSET = encode_versioned(group.OffsetCommitValue(offset=7, metadata="é", commit_timestamp=5), 3)
GROUP_KEY = encode_versioned(group.GroupMetadataKey(group="g"), 2)


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(4, 0, 0, key, value, [])


def test_consumer_group_member_is_printed_as_json() -> None:
    key = consumer.ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    value = consumer.ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        server_assignor=None,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["t"],
        subscribed_topic_regex="",
    )
    row = record(encode_versioned(key, 0, consumer.MEMBER_KEY), encode_versioned(value, 0))
    assert GROUPS(row) == (
        '{"type":"5","data":{"groupId":"g","memberId":"m"}}',
        '{"version":"0","data":{"instanceId":null,"rackId":null,"clientId":"c","clientHost":"/h",'
        '"subscribedTopicNames":["t"],"subscribedTopicRegex":"","rebalanceTimeoutMs":-1,"serverAssignor":null,'
        '"classicMemberMetadata":null}}',
    )
    assert GROUPS(record(row.key, None))[1] == "<DELETE>"


def test_share_group_metadata_is_printed_as_json() -> None:
    key = encode_versioned(share.ShareGroupMetadataKey(group_id="s"), 0, share.STATE_PARTITIONS_KEY)
    value = share.ShareGroupStatePartitionMetadataValue(
        initialized_topics=[share.NamedTopicPartitions(topic_id=TOPIC, topic_name="t", partitions=[0, 1])]
    )
    assert GROUPS(record(key, encode_versioned(value, 0))) == (
        '{"type":"15","data":{"groupId":"s"}}',
        f'{{"version":"0","data":{{"initializingTopics":[],"initializedTopics":[{{"topicId":"{NAME}","topicName":"t",'
        '"partitions":[0,1]}],"deletingTopics":[]}}',
    )


def test_streams_group_assignment_is_printed_as_json() -> None:
    key = encode_versioned(streams.StreamsGroupMemberMetadataKey(group_id="s", member_id="m"), 0, 22)
    tasks = streams.CurrentTaskIds(subtopology_id="0", partitions=[1], assignment_epochs=[3])
    value = streams.StreamsGroupCurrentMemberAssignmentValue(member_epoch=3, state=1, active_tasks=[tasks])
    assert GROUPS(record(key, encode_versioned(value, 0))) == (
        '{"type":"22","data":{"groupId":"s","memberId":"m"}}',
        '{"version":"0","data":{"memberEpoch":3,"previousMemberEpoch":0,"state":1,"activeTasks":[{"subtopologyId":"0",'
        '"partitions":[1],"assignmentEpochs":[3]}],"standbyTasks":[],"warmupTasks":[],"activeTasksPendingRevocation":[],'
        '"standbyTasksPendingRevocation":[],"warmupTasksPendingRevocation":[]}}',
    )


@pytest.mark.parametrize(("count", "printed"), [(-1, ""), (6, '"deliveryCompleteCount":6,')])
def test_share_partition_update_is_printed_as_json(count: int, printed: str) -> None:
    key = share.SharePartitionKey(group_id="s", topic_id=TOPIC, partition=1)
    batch = share.StateBatch(first_offset=0, last_offset=4, delivery_state=2, delivery_count=1)
    value = share.ShareUpdateValue(start_offset=-1, state_batches=[batch], delivery_complete_count=count)
    assert SHARED(record(encode_versioned(key, 0, share.UPDATE_KEY), encode_versioned(value, 0))) == (
        f'{{"type":"1","data":{{"groupId":"s","topicId":"{NAME}","partition":1}}}}',
        f'{{"version":"0","data":{{"snapshotEpoch":0,"leaderEpoch":0,"startOffset":-1,{printed}"stateBatches":'
        '[{"firstOffset":0,"lastOffset":4,"deliveryState":2,"deliveryCount":1}]}}',
    )


def test_group_records_that_cannot_be_decoded_are_reported() -> None:
    assert GROUPS(record(b"\0\x63", b"?")) == ("Unknown record type 99 at offset 4, skipping.", None)
    for key in (None, b"\0", OFFSET_KEY[:-1]):
        with pytest.raises(CorruptMessageError, match="offset 4"):
            GROUPS(record(key, None))


def metadata_value(kind: int, message: Data, version: int) -> bytes:
    value = bytearray()
    for number in (1, kind, version):
        write_uvarint(value, number)
    return bytes(encode(message, version, value))


def test_kraft_metadata_record_is_printed_as_json() -> None:
    broker = metadata.RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=TOPIC,
        broker_epoch=9,
        end_points=[metadata.Endpoint(name="PLAINTEXT", host="h", port=65_535)],
        features=[metadata.SupportedFeature(name="share.version", max_supported_version=1)],
        rack=None,
        log_dirs=[TOPIC],
    )
    assert texts.metadata_texts(record(None, metadata_value(0, broker, 3))) == (
        None,
        f'{{"type":"REGISTER_BROKER_RECORD","version":3,"data":{{"brokerId":1,"isMigratingZkBroker":false,'
        f'"incarnationId":"{NAME}","brokerEpoch":9,"endPoints":[{{"name":"PLAINTEXT","host":"h","port":65535,'
        '"securityProtocol":0}],"features":[{"name":"share.version","minSupportedVersion":0,"maxSupportedVersion":1}],'
        f'"rack":null,"fenced":true,"inControlledShutdown":false,"logDirs":["{NAME}"]}}}}',
    )
    empty = texts.metadata_texts(record(None, metadata_value(20, metadata.NoOpRecord(), 0)))
    assert empty == (None, '{"type":"NO_OP_RECORD","version":0,"data":{}}')
    unchanged = texts.metadata_texts(record(None, metadata_value(17, metadata.BrokerRegistrationChangeRecord(), 3)))
    assert unchanged[1] is not None
    assert json.loads(unchanged[1])["data"] == {"brokerId": 0, "brokerEpoch": 0}


@pytest.mark.parametrize("value", [None, b"", b"\x01\x63\x00", b"\x01\x02\x00\x05a"])
def test_kraft_metadata_record_that_cannot_be_decoded_is_reported(value: bytes | None) -> None:
    _, text = texts.metadata_texts(record(None, value))
    assert text is not None
    assert text.startswith("Error at 4, skipping. ")


def test_kraft_control_record_is_printed() -> None:
    change = metadata.LeaderChangeMessage(leader_id=1, voters=[metadata.QuorumVoter(voter_id=1)])
    for kind, message, text in (
        (2, change, ' LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[]}'),
        (3, metadata.SnapshotHeaderRecord(), ' SnapshotHeader {"version":0,"lastContainedLogTimestamp":0}'),
        (5, metadata.KRaftVersionRecord(k_raft_version=1), ' KRaftVersion {"version":0,"kRaftVersion":1}'),
    ):
        assert texts.control_text(record(bytes((0, 0, 0, kind)), bytes(encode(message, 0, bytearray())))) == text
    assert texts.control_text(record(b"\0\0\0\x09", b"")) == " controlType: UNKNOWN(9)"
    with pytest.raises(CorruptMessageError, match="offset 4"):
        texts.control_text(record(b"\0\0\0\x03", b"\0"))


def formatted(name: str, key: bytes | None, value: bytes | None) -> str:
    """Return the output of a formatter of the console consumer."""
    options: dict[str, Any] = {
        "formatter_config": None,
        "property": [],
        "key_deserializer": None,
        "value_deserializer": None,
    }
    message_formatter = formatter(argparse.Namespace(formatter=f"org.apache.kafka.tools.consumer.{name}", **options))
    printed: Any = SimpleNamespace(key=key, value=value, offset=4)
    return message_formatter.line(printed).decode()


def test_offsets_formatter_prints_only_offset_commits() -> None:
    assert formatted("OffsetsMessageFormatter", OFFSET_KEY, OFFSET) == (
        '{"key":{"type":1,"data":{"group":"g","topic":"t","partition":3}},"value":{"version":3,"data":{"offset":7,'
        '"leaderEpoch":-1,"metadata":"é","commitTimestamp":5}}}\n'
    )
    assert formatted("OffsetsMessageFormatter", OFFSET_KEY, None).endswith('"partition":3}},"value":null}\n')
    for key in (GROUP_KEY, b"\0\x63", None):
        assert formatted("OffsetsMessageFormatter", key, None) == ""


def test_formatters_print_the_records_of_their_internal_topics() -> None:
    groups = partial(formatted, "GroupMetadataMessageFormatter")
    assert groups(OFFSET_KEY, OFFSET) == ""
    assert groups(GROUP_KEY, None) == '{"key":{"type":2,"data":{"group":"g"}},"value":null}\n'
    key = encode_versioned(TransactionLogKey(transactional_id="x"), 0)
    transaction = formatted(
        "TransactionLogMessageFormatter", key, encode_versioned(TransactionLogValue(producer_id=7), 0)
    )
    assert json.loads(transaction)["value"]["data"]["producerId"] == 7
    key = encode_versioned(share.SharePartitionKey(group_id="s"), 0, share.SNAPSHOT_KEY)
    shared = formatted(
        "group.share.ShareGroupStateMessageFormatter", key, encode_versioned(share.ShareSnapshotValue(), 0)
    )
    assert json.loads(shared)["key"] == {
        "type": 0,
        "data": {"groupId": "s", "topicId": "A" * 22, "partition": 0},
    }


def test_formatter_rejects_damaged_records() -> None:
    with pytest.raises(CorruptMessageError, match="Could not read record at offset 4"):
        formatted("OffsetsMessageFormatter", OFFSET_KEY, OFFSET[:-3])

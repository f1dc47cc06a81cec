"""Names of kafka-python: programs written for it run after a change of their imports."""

from __future__ import annotations

import pytest

import ottla
from ottla import DefaultSerializer, JsonSerializer, errors

KAFKA_PYTHON = [
    "AsyncConsumerRebalanceListener",
    "ConsumerRebalanceListener",
    "DefaultSerializer",
    "Deserializer",
    "IsolationLevel",
    "JsonSerializer",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "Serializer",
    "TopicPartition",
    "ACL",
    "ACLFilter",
    "ACLOperation",
    "ACLPermissionType",
    "ACLResourcePatternType",
    "AbortTransactionSpec",
    "AlterConfigOp",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSourceType",
    "GroupState",
    "GroupType",
    "MemberToRemove",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "PartitionProducerState",
    "ProducerState",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
    "ScramMechanism",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "UpdateFeatureType",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]

ERRORS = [
    "CommitFailedError",
    "CorruptRecordError",
    "IllegalStateError",
    "KafkaConfigurationError",
    "KafkaConnectionError",
    "KafkaError",
    "KafkaTimeoutError",
    "MessageSizeTooLargeError",
    "NoBrokersAvailable",
    "NotLeaderForPartitionError",
    "OffsetOutOfRangeError",
    "TopicAlreadyExistsError",
    "UnknownError",
    "UnknownTopicOrPartitionError",
    "UnsupportedCodecError",
    "UnsupportedVersionError",
]


@pytest.mark.parametrize("name", KAFKA_PYTHON)
def test_name_of_kafka_python_exists(name: str) -> None:
    assert getattr(ottla, name)


@pytest.mark.parametrize("name", ERRORS)
def test_error_of_kafka_python_exists(name: str) -> None:
    assert issubclass(getattr(errors, name), Exception)


def test_default_serializer_accepts_text_and_bytes() -> None:
    serializer = DefaultSerializer()
    assert serializer.serialize("t", "é") == "é".encode()
    assert serializer.serialize("t", bytearray(b"x")) == b"x"
    assert serializer.deserialize("t", b"x") == "x"
    assert serializer.serialize("t", None) is None


def test_json_serializer_round_trips_values() -> None:
    assert JsonSerializer().deserialize("t", JsonSerializer().serialize("t", {"a": [1, None]})) == {"a": [1, None]}

"""Messages with a version in front, as in records of internal topics and the consumer protocol."""

from __future__ import annotations

import pytest

from ottla.errors import MalformedMessageError
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.protocol.messages.group_records import GROUP_KEY, GroupMetadataKey
from ottla.protocol.versioned import decode_versioned, encode_versioned, version_of


def test_version_precedes_the_message() -> None:
    data = encode_versioned(ConsumerProtocolSubscription(topics=["t"], generation_id=4), 2)
    assert version_of(data) == 2
    assert decode_versioned(ConsumerProtocolSubscription, data).generation_id == 4


def test_newer_version_is_decoded_as_the_latest_known() -> None:
    data = encode_versioned(ConsumerProtocolSubscription(topics=["t"], rack_id="r"), 3, prefix=9) + b"more"
    assert decode_versioned(ConsumerProtocolSubscription, data).rack_id == "r"


def test_record_key_begins_with_its_type() -> None:
    assert encode_versioned(GroupMetadataKey(group="g"), 0, prefix=GROUP_KEY) == b"\0\2\0\1g"


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0"])
def test_bytes_without_a_version_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode_versioned(ConsumerProtocolSubscription, data)

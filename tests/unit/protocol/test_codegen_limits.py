"""Limits that generated decoders enforce on any input, and encoders on error messages."""

from __future__ import annotations

import pytest

from ottla.errors import MalformedMessageError
from ottla.protocol.codegen import MAX_STRING_BYTES
from ottla.protocol.header import MAX_TAGS, decode_request_header, encode_request_header
from ottla.protocol.message import decode, decode_in_slices, encode
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.wire import write_uvarint


def test_string_longer_than_the_limit_of_kafka_is_rejected_in_flexible_versions() -> None:
    fits = encode(HeartbeatRequest(group_id="g" * MAX_STRING_BYTES), 4)
    assert decode(HeartbeatRequest, fits, 4).group_id == "g" * MAX_STRING_BYTES
    with pytest.raises(MalformedMessageError, match=r"group_id has more than 32767 bytes"):
        decode(HeartbeatRequest, encode(HeartbeatRequest(group_id="g" * (MAX_STRING_BYTES + 1)), 4), 4)


def test_array_with_more_items_than_the_limit_is_rejected_before_decoding() -> None:
    data = memoryview(encode(DescribeGroupsRequest(groups=["g"] * 300), 5))
    with pytest.raises(MalformedMessageError, match="more items than are accepted"):
        next(decode_in_slices(DescribeGroupsRequest, data, 5, 0, 299))
    steps = decode_in_slices(DescribeGroupsRequest, data, 5, 0, 300)
    assert next(steps) is None


def test_message_with_too_many_tagged_fields_is_rejected() -> None:
    tags = bytearray()
    write_uvarint(tags, MAX_TAGS + 1)
    tags += b"\x05\x00" * (MAX_TAGS + 1)
    header = bytearray()
    encode_request_header(header, 12, 4, 1, "c")
    with pytest.raises(MalformedMessageError, match="tagged fields"):
        decode_request_header(header[:-1] + tags)
    body = encode(HeartbeatRequest(), 4)
    with pytest.raises(MalformedMessageError, match="HeartbeatRequest tags"):
        decode(HeartbeatRequest, body[:-1] + tags, 4)


def test_error_message_that_is_too_long_for_a_response_is_truncated() -> None:
    result = CreatableTopicResult(name="t", error_code=1, error_message="ä" * 40_000)
    for version in (1, 5):
        data = encode(CreateTopicsResponse(topics=[result]), version)
        actual = decode(CreateTopicsResponse, data, version).topics[0].error_message
        assert actual == "ä" * (MAX_STRING_BYTES // 2)

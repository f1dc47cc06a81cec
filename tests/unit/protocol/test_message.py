"""Encoding and decoding of messages: versions, flexible fields, defaults, and malformed input."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import repeats
from tests.unit.protocol.messages import ALL, any_message

from ottla.errors import MalformedMessageError, UnsupportedVersionError
from ottla.protocol import fields as f
from ottla.protocol.message import Data, Message, Struct, decode, decode_from, encode, encode_chunks
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData


class Inner(Struct):
    id: int = f.int32("0+")


class Everything(Data, versions="0-2", flexible="2+"):
    number: int = f.int64("0+", default=7)
    text: str | None = f.string("0+", nullable="1+")
    added: int = f.int16("1+", default=-1)
    hint: int = f.int16("1+", default=-1, ignorable=True)
    inner: Inner = f.struct(Inner, "0+")
    maybe: Inner | None = f.struct(Inner, "0+", nullable="0+")
    items: list[Inner] = f.array(Inner, "0+")
    extra: str = f.string("2+", default="", ignorable=True, tag=0)
    more: Inner | None = f.struct(Inner, "2+", ignorable=True, tag=1)


class Old(Data, versions="2", flexible="2+"):
    number: int = f.int64("0+", default=7)


class New(Data, versions="2", flexible="2+"):
    number: int = f.int64("0+", default=7)
    label: str = f.string("2+", tag=5)


@given(any_message())
@settings(max_examples=repeats(150, 2000))
def test_message_round_trip_in_any_version(drawn: tuple[Message, int]) -> None:
    message, version = drawn
    data = encode(message, version)
    decoded, end = decode_from(type(message), data, version)
    assert decoded == message
    assert end == len(data)


@given(any_message())
@settings(max_examples=repeats(40, 500))
def test_encoded_chunks_join_to_the_encoded_message(drawn: tuple[Message, int]) -> None:
    message, version = drawn
    chunks: Any = encode_chunks(message, version, bytearray(b"head"))
    assert b"".join(chunks) == b"head" + encode(message, version)


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_default_message_round_trip_in_every_version(cls: type[Message]) -> None:
    for version in cls.VERSIONS:
        message = cls()
        assert decode(cls, encode(message, version), version) == message


def test_new_message_has_default_values() -> None:
    message = Everything()
    assert (message.number, message.text, message.added, message.items) == (7, "", -1, [])
    assert message.inner == Inner()
    assert message.maybe is None
    assert message.more is None


def test_messages_do_not_share_default_lists() -> None:
    Everything().items.append(Inner())
    assert Everything().items == []


def test_unknown_field_name_raises_type_error() -> None:
    with pytest.raises(TypeError, match="nonsense"):
        Everything(nonsense=1)  # type: ignore[call-arg]


def test_encoding_of_a_non_flexible_version() -> None:
    message = Everything(number=1, text="ab", inner=Inner(id=2), items=[Inner(id=3)])
    expected = struct.pack(">q", 1) + b"\0\2ab" + struct.pack(">i", 2) + b"\xff" + struct.pack(">ii", 1, 3)
    assert encode(message, 0) == expected


def test_encoding_of_a_flexible_version() -> None:
    message = Everything(number=1, text=None, inner=Inner(id=2), maybe=Inner(id=4), extra="e", more=Inner(id=9))
    expected = b"".join(
        [
            struct.pack(">q", 1),
            b"\0",  # text is null
            struct.pack(">hh", -1, -1),
            struct.pack(">i", 2) + b"\0",  # inner, no tags
            b"\1" + struct.pack(">i", 4) + b"\0",  # maybe is there
            b"\1",  # no items
            b"\2",  # two tagged fields
            b"\0\2\2e",
            b"\1\5" + struct.pack(">i", 9) + b"\0",
        ]
    )
    assert encode(message, 2) == expected
    assert decode(Everything, expected, 2) == message


def test_ignorable_field_is_omitted_in_versions_without_it() -> None:
    assert decode(Everything, encode(Everything(hint=5), 0), 0).hint == -1


def test_non_ignorable_field_raises_unsupported_version_in_versions_without_it() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"Everything\.added"):
        encode(Everything(added=5), 0)


def test_null_is_malformed_in_versions_where_the_field_is_not_nullable() -> None:
    with pytest.raises(MalformedMessageError):
        encode(Everything(text=None), 0)
    with pytest.raises(MalformedMessageError, match="null"):
        decode(Everything, struct.pack(">qh", 1, -1), 0)


def test_unknown_tagged_fields_are_skipped() -> None:
    data = encode(New(number=3, label="later"), 2)
    old, end = decode_from(Old, data, 2)
    assert old.number == 3
    assert end == len(data)


def test_tagged_field_with_a_wrong_size_is_malformed() -> None:
    data = bytearray(encode(New(number=3, label="later"), 2))
    data[10] += 1  # the size of the tagged field
    with pytest.raises(MalformedMessageError):
        decode(New, data + b"\0", 2)


def test_undeclared_version_error_names_message_and_versions() -> None:
    with pytest.raises(UnsupportedVersionError, match="ProduceRequest has no version 99; declared: 0 to 13"):
        encode(ProduceRequest(), 99)


def test_bytes_after_the_message_are_ignored() -> None:
    data = encode(OffsetCommitRequest(group_id="g"), 8)
    assert decode(OffsetCommitRequest, data + b"rest", 8).group_id == "g"


def test_decoded_records_are_views_of_the_request() -> None:
    request = ProduceRequest(
        acks=1, topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=b"abc")])]
    )
    data = encode(request, 9)
    view = decode(ProduceRequest, data, 9).topic_data[0].partition_data[0].records
    assert view is not None
    view[0:1] = b"X"
    assert b"Xbc" in data


class FileSlice:
    nbytes = 3

    def read(self) -> bytes:
        return b"xyz"


def test_encoded_records_are_passed_by_reference() -> None:
    file_slice, first, second = FileSlice(), memoryview(b"abc"), b"de"
    parts = [PartitionData(records=file_slice), PartitionData(records=[first, second]), PartitionData(records=b"")]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=parts)])
    chunks = encode_chunks(response, 12, bytearray(b"...."))
    assert any(chunk is file_slice for chunk in chunks)
    assert any(chunk is first for chunk in chunks)
    assert any(chunk is second for chunk in chunks)
    joined = b"".join(c if isinstance(c, bytes | bytearray | memoryview) else file_slice.read() for c in chunks)
    assert joined == b"...." + encode(response, 12)


def test_request_class_refers_to_its_response_class() -> None:
    assert ProduceRequest.RESPONSE is ProduceResponse
    assert (ProduceRequest.API_KEY, ProduceRequest.NAME, ProduceRequest.FLEXIBLE) == (0, "Produce", 9)


def test_topic_ids_are_decoded_as_uuids() -> None:
    topic = UUID("01234567-89ab-cdef-0123-456789abcdef")
    data = encode(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic, name=None)]), 12)
    actual = decode(MetadataRequest, data, 12).topics
    assert actual is not None
    assert actual[0].topic_id == topic


# Malformed input


@given(st.sampled_from(ALL), st.data(), st.binary(max_size=300))
@settings(max_examples=repeats(150, 2000))
def test_random_bytes_raise_only_malformed_message_error(cls: type[Message], data: st.DataObject, raw: bytes) -> None:
    version = data.draw(st.sampled_from(list(cls.VERSIONS)))
    try:
        decode(cls, raw, version)
    except MalformedMessageError:
        pass


@given(any_message(), st.data())
@settings(max_examples=repeats(150, 2000))
def test_damaged_message_raises_only_malformed_message_error(drawn: tuple[Message, int], data: st.DataObject) -> None:
    message, version = drawn
    raw = encode(message, version)
    if raw:
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
        del raw[data.draw(st.integers(0, len(raw))) :]
    try:
        decode(type(message), raw, version)
    except MalformedMessageError:
        pass


@pytest.mark.parametrize("version", [0, 2])
def test_array_count_beyond_the_data_allocates_no_memory(version: int) -> None:
    data = encode(ApiVersionsResponse(api_keys=[ApiVersion(api_key=1)]), version)
    data[2:6] = struct.pack(">i", 0x7FFF_FFFF)
    decode(ApiVersionsResponse, encode(ApiVersionsResponse(), version), version)
    tracemalloc.start()
    with pytest.raises(MalformedMessageError):
        decode(ApiVersionsResponse, data, version)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()

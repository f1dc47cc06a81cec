"""Frames of requests and responses: reassembly, size limits, and memory of the frame reader."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import MalformedMessageError
from ottla.protocol.framing import TRUST_BYTES, FrameReader, request_frame, response_frame
from ottla.protocol.header import decode_request_header
from ottla.protocol.message import decode
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def feed(reader: FrameReader, data: bytes, step: int) -> list[memoryview]:
    frames = []
    while data:
        space = reader.space()
        count = min(step, len(space), len(data))
        space[:count] = data[:count]
        data = data[count:]
        frames += reader.received(count)
    return frames


def stream(bodies: list[bytes]) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@given(st.lists(st.binary(max_size=200), max_size=30), st.integers(1, 100))
@settings(deadline=None)
def test_frames_are_reassembled_from_chunks_of_any_size(bodies: list[bytes], step: int) -> None:
    reader = FrameReader(10_000, block_bytes=64)
    assert [bytes(frame) for frame in feed(reader, stream(bodies), step)] == bodies
    assert reader.waiting == 0


def test_frame_in_use_is_not_overwritten() -> None:
    reader = FrameReader(10_000, block_bytes=64)
    held = feed(reader, stream([b"a" * 40]), 100)
    for _ in range(20):
        feed(reader, stream([b"b" * 50]), 100)
    assert bytes(held[0]) == b"a" * 40


def test_memory_is_reused_when_no_frame_is_in_use() -> None:
    reader = FrameReader(10_000, block_bytes=256)
    block = reader.space().obj
    for _ in range(100):
        feed(reader, stream([b"c" * 100]), 300)
    assert reader.space().obj is block


def test_two_blocks_alternate_while_each_frame_is_held_until_the_next_arrives() -> None:
    reader = FrameReader(10_000, block_bytes=64)
    blocks, held = {}, None
    for number in range(50):
        (frame,) = feed(reader, stream([bytes([number]) * 200]), 100)
        assert bytes(frame) == bytes([number]) * 200
        blocks[id(frame.obj)] = frame.obj
        held = frame
    assert held is not None
    # Two suffice; a coverage tracer may hold a frame for a moment longer, so that another block is allocated.
    assert len(blocks) <= 5


@pytest.mark.parametrize("size", [-1, 10_001, 0x7FFF_FFFF])
def test_frame_size_out_of_bounds_is_rejected(size: int) -> None:
    reader = FrameReader(10_000)
    with pytest.raises(MalformedMessageError, match=str(size)):
        feed(reader, size.to_bytes(4, "big", signed=True), 4)


def test_memory_of_a_large_frame_is_allocated_as_it_arrives() -> None:
    reader = FrameReader(100 * TRUST_BYTES)
    feed(reader, (50 * TRUST_BYTES).to_bytes(4, "big"), 4)
    assert len(reader.space()) <= TRUST_BYTES


def test_large_frame_is_received_completely() -> None:
    body = bytes(range(256)) * (3 * TRUST_BYTES // 256)
    (frame,) = feed(FrameReader(10 * TRUST_BYTES), stream([body]), 100_000)
    assert frame == body


def test_request_and_response_frames_have_size_and_header() -> None:
    frame = b"".join(request_frame(HeartbeatRequest(group_id="g"), 4, 9, "me"))  # type: ignore[arg-type]
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, pos = decode_request_header(frame[4:])
    assert (header.correlation_id, header.client_id) == (9, "me")
    assert decode(HeartbeatRequest, frame[4:], 4, pos).group_id == "g"
    response = b"".join(response_frame(HeartbeatResponse(error_code=3), 4, 9))  # type: ignore[arg-type]
    assert response == b"\0\0\0\x0c\0\0\0\x09\0" + b"\0\0\0\0" + b"\0\3" + b"\0"


def test_large_frame_is_copied_only_when_its_memory_is_full() -> None:
    reader = FrameReader(64 * TRUST_BYTES, trust_bytes=TRUST_BYTES)
    data = stream([bytes(20 * TRUST_BYTES)])
    blocks, frames = set(), []
    for at in range(0, len(data), 50_000):
        rest = data[at : at + 50_000]
        while rest:
            space = reader.space()
            blocks.add(id(space.obj))
            count = min(len(space), len(rest))
            space[:count] = rest[:count]
            rest = rest[count:]
            frames += reader.received(count)
    assert len(frames[0]) == 20 * TRUST_BYTES
    assert len(blocks) <= 8

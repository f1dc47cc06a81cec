"""Headers of requests and responses, and the table of APIs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import MalformedMessageError
from ottla.protocol.apis import APIS, api
from ottla.protocol.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    response_header_size,
)


@pytest.mark.parametrize("row", APIS, ids=lambda row: row.name)
def test_api_table_matches_the_message_declarations(row: object) -> None:
    declared = api(row.key)  # type: ignore[attr-defined]
    assert declared.request.API_KEY == declared.response.API_KEY == declared.key
    assert declared.request.NAME == declared.response.NAME == declared.name
    assert declared.request.VERSIONS == declared.response.VERSIONS
    assert declared.request.FLEXIBLE == declared.response.FLEXIBLE
    assert declared.request.RESPONSE is declared.response
    in_use = [v for v in declared.request.VERSIONS if declared.flexible is not None and v >= declared.flexible]
    flexible = declared.request.FLEXIBLE
    assert in_use == [v for v in declared.request.VERSIONS if flexible is not None and v >= flexible]


@pytest.mark.parametrize("client_id", [None, "", "me"])
@pytest.mark.parametrize(("key", "version"), [(0, 8), (0, 9), (18, 0), (18, 3), (999, 4)])
def test_request_header_round_trip(key: int, version: int, client_id: str | None) -> None:
    out = bytearray()
    encode_request_header(out, key, version, 17, client_id)
    header, pos = decode_request_header(bytes(out) + b"body")
    assert header == RequestHeader(key, version, 17, client_id)
    assert pos == len(out)


def test_controlled_shutdown_version_0_has_no_client_id() -> None:
    out = bytearray()
    encode_request_header(out, 7, 0, 5, "me")
    assert out == b"\0\7\0\0\0\0\0\5"
    assert decode_request_header(out + b"\0\0\0\1") == (RequestHeader(7, 0, 5, None), 8)


@pytest.mark.parametrize(("key", "version", "size"), [(0, 8, 4), (0, 9, 5), (18, 3, 4)])
def test_response_header_round_trip(key: int, version: int, size: int) -> None:
    out = bytearray()
    encode_response_header(out, key, version, -5)
    assert len(out) == size == response_header_size(key, version)
    assert decode_response_header(memoryview(out), key, version) == (-5, size)


@given(st.binary(max_size=60))
def test_random_bytes_raise_only_malformed_message_error(raw: bytes) -> None:
    for read in (
        decode_request_header,
        lambda data: decode_response_header(memoryview(data), 0, 9),
        lambda data: decode_request_header(b"\0\0\0\x09\0\0\0\1\0\0" + data),
    ):
        try:
            read(raw)
        except MalformedMessageError:
            pass

"""Conversion of records to text for the pages of the console."""

from __future__ import annotations

import pytest

from ottla_console.pages.record_view import MAX_SHOWN, ShownRecord, shown


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"text", "text"),
        (b"\x00", "00"),
        (b"ab\xff", "61 62 ff"),
        ("é".encode()[:1], "c3"),
        (b"a" * (MAX_SHOWN - 1) + "é".encode(), "a" * (MAX_SHOWN - 1) + "\ufffd\n… 1 more bytes"),
    ],
)
def test_bytes_are_shown_as_text_only_if_every_character_is_printable(data: bytes, text: str) -> None:
    assert shown(data, "auto") == text


def test_half_of_a_surrogate_pair_in_json_is_shown_as_an_escape() -> None:
    text = shown(b'{"a":"\\ud800\\u00e9"}', "auto")
    assert text == '{\n  "a": "\\ud800é"\n}'
    assert text.encode(), "a page can have it"


def test_record_without_key_value_and_headers_contains_the_empty_text() -> None:
    record = ShownRecord(0, 0, 0, None, None, (), 0)
    assert record.contains("")
    assert not record.contains("a")

"""Java's properties files: parsing, missing files, overrides."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.config import properties
from ottla.errors import ConfigurationError


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a=1\nb: 2\nc 3", {"a": "1", "b": "2", "c": "3"}),
        ("# comment\n! another\n\n  a = 1  ", {"a": "1"}),
        ("a=one \\\n   two", {"a": "one two"}),
        (r"a\ b=c\u0041\n", {"a b": "cA\n"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("empty=\nbare", {"empty": "", "bare": ""}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_properties_are_parsed_as_by_java(source: str, expected: dict[str, str]) -> None:
    assert properties.parse(source) == expected


def test_missing_properties_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"server\.properties.*No such file"):
        properties.load(tmp_path / "server.properties")


def test_override_requires_an_equals_sign() -> None:
    assert properties.override("a=b=c") == ("a", "b=c")
    with pytest.raises(ConfigurationError, match="key=value"):
        properties.override("a")

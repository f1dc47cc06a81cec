"""Reading the JSON files of Kafka's tools. Errors about values contain their path, such as `partitions[0].topic`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from ottla.errors import ConfigurationError
from ottla.model import TopicPartition

T = TypeVar("T")

VERSION: Final = 1
"""The only supported version of these files."""
MAX_INT: Final = 2**31 - 1
"""The largest partition number and broker id."""
MAX_LONG: Final = 2**63 - 1
"""The largest offset and timestamp."""
MAX_SHOWN: Final = 60
"""Number of characters after which a wrong value is cut in an error message."""


class JsonValue(NamedTuple):
    """A value in a file, and the path to it, such as `partitions[0].topic`."""

    file: str
    path: str
    value: Any

    def __str__(self) -> str:
        return f"{self.file}: {self.path}" if self.path else self.file

    def reject(self, reason: str) -> NoReturn:
        """Raise a ConfigurationError with the file, the path and the reason."""
        raise ConfigurationError(f"{self}: {reason}")

    def field(self, name: str) -> JsonValue:
        """Return a field of an object. Raises ConfigurationError if this is not an object, or the field is missing."""
        if not isinstance(self.value, dict):
            self.reject(f"{_shown(self.value)} is not allowed: expected an object")
        if name not in self.value:
            self.reject(f'"{name}" is missing')
        return JsonValue(self.file, f"{self.path}.{name}".lstrip("."), self.value[name])

    def optional(self, name: str) -> JsonValue | None:
        """Return a field of an object; None if it is missing. Raises ConfigurationError if this is not an object."""
        return self.field(name) if not isinstance(self.value, dict) or name in self.value else None

    def items(self) -> list[JsonValue]:
        """Return the items of a list. Raises ConfigurationError if this is not a list."""
        if not isinstance(self.value, list):
            self.reject(f"{_shown(self.value)} is not allowed: expected a list")
        return [JsonValue(self.file, f"{self.path}[{i}]", item) for i, item in enumerate(self.value)]

    def text(self) -> str:
        """Return a string. Raises ConfigurationError if the value is not a string, or is empty."""
        if not isinstance(self.value, str) or not self.value:
            self.reject(f"{_shown(self.value)} is not allowed: expected a non-empty string")
        return self.value

    def topic_partition(self) -> TopicPartition:
        """Return the fields `topic` and `partition` of an object. Raises ConfigurationError if one is missing or
        invalid.
        """
        return TopicPartition(self.field("topic").text(), self.field("partition").number())

    def number(self, least: int = 0, most: int = MAX_INT) -> int:
        """Return an integer. Raises ConfigurationError if the value is not an integer from `least` to `most`. The
        default range is that of partition numbers and broker ids.
        """
        if type(self.value) is not int or not least <= self.value <= most:  # true and false are ints in Python
            self.reject(f"{_shown(self.value)} is not allowed: expected a whole number from {least} to {most}")
        return self.value


def read_list(file: str, content: str, form: str) -> JsonValue:
    """Return the field `content` of a JSON file; callers read the list with `items`. A missing version means 1.

    Raises ConfigurationError if the file cannot be read, is not a JSON object, has another version, or does not contain
    the field. `form` is an example of the expected JSON for the error message.
    """
    try:
        whole = JsonValue(file, "", json.loads(Path(file).read_bytes()))
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, or nested too deeply
        raise ConfigurationError(f"{file}: The input string is not a valid JSON: {error}; expected {form}") from None
    version = whole.optional("version")
    if version is not None and version.number() != VERSION:
        version.reject(f"Not supported version field value {version.value}: expected {VERSION}")
    items = whole.optional(content)
    if items is None:
        whole.reject(f'"{content}" is missing: expected {form}')
    return items


def duplicates_in(values: Iterable[T]) -> list[T]:
    """Return the values that occur more than once, each of them once."""
    return [value for value, count in Counter(values).items() if count > 1]


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"

"""JSON files that Kafka's tools take, read with their faults named by place."""

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
"""Of the files, all of them."""
MAX_INT: Final = 2**31 - 1
"""Of Kafka's numbers of partitions and brokers."""
MAX_LONG: Final = 2**63 - 1
"""Of offsets and times."""
MAX_SHOWN: Final = 60
"""Letters of a wrong value that an error repeats."""


class Place(NamedTuple):
    """A value in a file, and the way to it."""

    file: str
    path: str
    value: Any

    def __str__(self) -> str:
        return f"{self.file}: {self.path}" if self.path else self.file

    def refuse(self, why: str) -> NoReturn:
        """Raise ConfigurationError that names the place."""
        raise ConfigurationError(f"{self}: {why}")

    def field(self, name: str) -> Place:
        """A field of an object; ConfigurationError where there is no such."""
        if not isinstance(self.value, dict):
            self.refuse(f"{_shown(self.value)} is not allowed: an object is wanted")
        if name not in self.value:
            self.refuse(f'"{name}" is missing')
        return Place(self.file, f"{self.path}.{name}".lstrip("."), self.value[name])

    def optional(self, name: str) -> Place | None:
        """A field that may be left out."""
        return self.field(name) if not isinstance(self.value, dict) or name in self.value else None

    def items(self) -> list[Place]:
        """The items of a list."""
        if not isinstance(self.value, list):
            self.refuse(f"{_shown(self.value)} is not allowed: a list is wanted")
        return [Place(self.file, f"{self.path}[{i}]", item) for i, item in enumerate(self.value)]

    def text(self) -> str:
        """A text that is not empty."""
        if not isinstance(self.value, str) or not self.value:
            self.refuse(f"{_shown(self.value)} is not allowed: a text is wanted")
        return self.value

    def topic_partition(self) -> TopicPartition:
        """The fields `topic` and `partition` of an object."""
        return TopicPartition(self.field("topic").text(), self.field("partition").number())

    def number(self, least: int = 0, most: int = MAX_INT) -> int:
        """A whole number; by default one that partitions and brokers have."""
        if type(self.value) is not int or not least <= self.value <= most:  # true and false are integers, too
            self.refuse(f"{_shown(self.value)} is not allowed: a whole number of at least {least} is wanted")
        return self.value


def read_list(file: str, content: str, form: str) -> Place:
    """The list that a file is about; a version that is left out is 1.

    ConfigurationError for a file that cannot be read, is no JSON, has another version, or lacks the list.
    """
    try:
        whole = Place(file, "", json.loads(Path(file).read_bytes()))
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:  # no JSON, no text, or nested without end
        raise ConfigurationError(f"{file}: The input string is not a valid JSON: {error}: {form} is wanted") from None
    version = whole.optional("version")
    if version is not None and version.number() != VERSION:
        version.refuse(f"Not supported version field value {version.value}: {VERSION} is wanted")
    found = whole.optional(content)
    if found is None:
        whole.refuse(f'"{content}" is missing: {form} is wanted')
    return found


def twice_in(values: Iterable[T]) -> list[T]:
    """The values that are there more than once."""
    return [value for value, count in Counter(values).items() if count > 1]


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"

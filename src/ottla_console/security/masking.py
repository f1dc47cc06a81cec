"""Masking of secret configs and of fields of records.

A rule is `TOPIC=FIELD[,FIELD…]`. TOPIC is a name, or a pattern with `*`. FIELD is a path in a JSON value
(`customer.email`), or `$key`, `$value` or `$headers`. If a value with masked fields is not JSON, all of it is masked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from ottla.errors import ConfigurationError

MASK: Final = "•••"
KEY, VALUE, HEADERS = "$key", "$value", "$headers"
SECRET: Final = re.compile(r"password|secret|credential|jaas|token|private|keystore\.key", re.IGNORECASE)
"""The pattern of config names that are treated as secret, in addition to those that brokers mark as sensitive."""


class MaskedFields(NamedTuple):
    """The parts of a topic's records to mask. A path has the names of nested JSON fields."""

    paths: tuple[tuple[str, ...], ...] = ()
    has_key: bool = False
    has_value: bool = False
    has_headers: bool = False


class Masking:
    """The masking rules of a console."""

    def __init__(self, rules: Iterable[str] = ()) -> None:
        """Parse the rules. Raises ConfigurationError for a rule that is not `TOPIC=FIELD[,FIELD…]`."""
        self._rules = [_parsed(rule) for rule in rules]

    def of_topic(self, topic: str) -> MaskedFields:
        """Return the parts of a topic's records to mask."""
        fields = [field for pattern, names in self._rules if fnmatchcase(topic, pattern) for field in names]
        paths = tuple(tuple(field.split(".")) for field in fields if not field.startswith("$"))
        return MaskedFields(paths, KEY in fields, VALUE in fields, HEADERS in fields)


def masked_value(value: bytes | None, fields: MaskedFields) -> bytes | None:
    """Return a value in which the masked fields are replaced."""
    if value is None or not (fields.has_value or fields.paths):
        return value
    if fields.has_value:
        return MASK.encode()
    try:
        document = json.loads(value)
        for path in fields.paths:
            _mask(document, path)
        # JSON may have half of a surrogate pair, which UTF-8 cannot; it stays an escape such as \ud800
        return json.dumps(document, ensure_ascii=False).encode("utf-8", "backslashreplace")
    except (ValueError, RecursionError):
        return MASK.encode()


def is_secret(name: str) -> bool:
    """Return whether a config is treated as secret because of its name."""
    return SECRET.search(name) is not None


def _mask(document: Any, path: tuple[str, ...]) -> None:
    if isinstance(document, list):
        for element in document:
            _mask(element, path)
    elif isinstance(document, dict) and path[0] in document:
        if len(path) == 1:
            document[path[0]] = MASK
        else:
            _mask(document[path[0]], path[1:])


def _parsed(rule: str) -> tuple[str, list[str]]:
    topic, _, fields = rule.partition("=")
    names = [name.strip() for name in fields.split(",") if name.strip()]
    if not topic.strip() or not names or any(n.startswith("$") and n not in (KEY, VALUE, HEADERS) for n in names):
        raise ConfigurationError(
            f"--mask: {rule!r} is invalid: expected TOPIC=FIELD[,FIELD…], such as "
            "'orders=customer.email,$key' ($key, $value and $headers are parts of the record)"
        )
    return topic.strip(), names

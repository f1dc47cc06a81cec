"""Checks of the metadata and rules in requests. Confluent's registry could not read the topic if their values had other
types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final


def check_metadata(document: Mapping[str, Any]) -> None:
    """Raise ValueError if `metadata`, `ruleSet` or `schemaTags` of a request are malformed."""
    for field, parts in PARTS.items():
        value = document.get(field)
        if value is None:
            continue
        if not isinstance(value, dict) or value.keys() - parts.keys():
            raise ValueError(f"{field} must be an object with {', '.join(parts)}")
        for name, check in parts.items():
            if value.get(name) is not None and not check(value[name]):
                raise ValueError(f"{field}.{name} is malformed")
    if document.get("schemaTags") is not None and not _are_objects(document["schemaTags"]):
        raise ValueError("schemaTags must be a list of objects")


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _are_properties(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _are_tags(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_are_texts, value.values()))


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


PARTS: Final[Mapping[str, Mapping[str, Callable[[Any], bool]]]] = {
    "metadata": {"tags": _are_tags, "properties": _are_properties, "sensitive": _are_texts},
    "ruleSet": {
        "migrationRules": _are_objects,
        "domainRules": _are_objects,
        "encodingRules": _are_objects,
        "enableAt": lambda value: isinstance(value, str),
    },
}

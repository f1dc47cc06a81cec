"""The GUID of a schema, which is the same in every registry. Producers may write it to a header of their records.

Confluent's registry has the same GUIDs: the MD5 of a schema's text, references, metadata and rules, in this order.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

PRESENT: Final = b"\x01"
RULES: Final = ("migrationRules", "domainRules", "encodingRules")
RULE_TEXTS: Final = ("name", "doc", "kind", "mode", "type")
RULE_ACTIONS: Final = ("expr", "onSuccess", "onFailure")


def guid(text: str, references: Iterable[tuple[str, str, int]], extra: Mapping[str, Any]) -> str:
    """Return the GUID of a schema. `references` are tuples of name, subject and version. `extra` has the metadata and
    the rule set, if there are any.
    """
    digest = hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    for name, subject, version in references:
        digest.update(name.encode() + subject.encode() + version.to_bytes(4, "big", signed=True))
    for field, parts in (("metadata", _metadata), ("ruleSet", _rule_set)):
        if field in extra:
            digest.update(PRESENT)
            for part in parts(extra[field]):
                digest.update(part if isinstance(part, bytes) else str(part).encode())
    return str(uuid.UUID(bytes=digest.digest()))


def _metadata(metadata: Mapping[str, Any]) -> Iterator[str]:
    for tag, values in _sorted_items(metadata.get("tags")):
        yield tag
        yield from _sorted(values)
    for item in _sorted_items(metadata.get("properties")):
        yield from item
    yield from _sorted(metadata.get("sensitive"))


def _rule_set(rules: Mapping[str, Any]) -> Iterator[str | bytes]:
    for kind in RULES:
        for rule in rules.get(kind) or ():
            yield from _rule(rule)
    yield rules.get("enableAt") or ""


def _rule(rule: Mapping[str, Any]) -> Iterator[str | bytes]:
    yield from (rule.get(name) or "" for name in RULE_TEXTS)
    yield from _sorted(rule.get("tags"))
    for item in _sorted_items(rule.get("params")):
        yield from item
    yield from (rule.get(name) or "" for name in RULE_ACTIONS)
    if rule.get("disabled"):
        yield PRESENT


def _sorted(texts: Iterable[str] | None) -> list[str]:
    return sorted(set(texts or ()), key=_java_order)


def _sorted_items(values: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    return sorted((values or {}).items(), key=lambda item: _java_order(item[0]))


def _java_order(text: str) -> bytes:
    """Return the key to sort strings by as Java does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")

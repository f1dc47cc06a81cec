"""The GUID of a schema."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

from ottla_registry.store.guid import guid


def test_guid_covers_text_references_metadata_and_rules_in_confluents_order() -> None:
    extra: dict[str, Any] = {
        "metadata": {
            "properties": {"b": "2", "a": "1"},
            "tags": {"f": ["Y", "X"]},
            "sensitive": ["t", "s"],
        },
        "ruleSet": {
            "domainRules": [
                {
                    "name": "n",
                    "doc": "d",
                    "kind": "CONDITION",
                    "mode": "WRITE",
                    "type": "CEL",
                    "tags": ["q", "p"],
                    "params": {"y": "2", "x": "1"},
                    "expr": "e",
                    "onSuccess": "NONE",
                    "onFailure": "ERROR",
                    "disabled": True,
                }
            ],
            "migrationRules": [{"name": "m", "type": None}],
            "enableAt": "CLIENT",
        },
    }
    content = b'"int"' + b"Refsub\0\0\0\2" + b"\1fXYa1b2st" + b"\1mndCONDITIONWRITECELpqx1y2eNONEERROR\1CLIENT"
    assert guid('"int"', [("Ref", "sub", 2)], extra) == str(UUID(bytes=hashlib.md5(content).digest()))


def test_keys_are_sorted_as_java_does() -> None:
    # Java compares UTF-16 code units: half of a surrogate pair comes before U+FFFF.
    content = b'"int"\1' + "\U0001f600a\uffffb".encode()
    extra = {"metadata": {"properties": {"\uffff": "b", "\U0001f600": "a"}}}
    assert guid('"int"', [], extra) == str(UUID(bytes=hashlib.md5(content).digest()))

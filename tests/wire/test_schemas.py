"""Every declared message against Kafka's own schemas.

The schemas are not part of this repository. OTTLA_PROTOCOL_SCHEMAS names a folder with `messages-*.json` (and
`disk-records-*.json`): a mapping from the name of a message to Kafka's schema of it, one file per release of Kafka.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.apis import SUPPORTED_APIS, unsupported_apis
from ottla.protocol.apis import APIS
from ottla.protocol.fields import ZERO_UUID, Field, within
from ottla.protocol.message import Message, Struct
from ottla.protocol.messages import (
    consumer_group_records,
    consumer_protocol,
    group_records,
    share_group_records,
    streams_group_records,
    transaction_records,
)

FOLDER = os.environ.get("OTTLA_PROTOCOL_SCHEMAS", "")
if not FOLDER:
    pytest.skip("OTTLA_PROTOCOL_SCHEMAS does not name a folder with Kafka's schemas", allow_module_level=True)

MESSAGES: list[type[Message]] = [
    *(api.request for api in APIS),
    *(api.response for api in APIS),
    consumer_protocol.ConsumerProtocolSubscription,
    consumer_protocol.ConsumerProtocolAssignment,
    group_records.OffsetCommitValue,
    group_records.GroupMetadataValue,
    share_group_records.ShareGroupMetadataKey,
    share_group_records.ShareGroupMetadataValue,
    share_group_records.ShareGroupMemberMetadataKey,
    share_group_records.ShareGroupMemberMetadataValue,
    share_group_records.ShareGroupTargetAssignmentMetadataValue,
    share_group_records.ShareGroupTargetAssignmentMemberValue,
    share_group_records.ShareGroupCurrentMemberAssignmentValue,
    streams_group_records.StreamsGroupMetadataKey,
    streams_group_records.StreamsGroupMetadataValue,
    streams_group_records.StreamsGroupMemberMetadataKey,
    streams_group_records.StreamsGroupMemberMetadataValue,
    streams_group_records.StreamsGroupTargetAssignmentMetadataValue,
    streams_group_records.StreamsGroupTargetAssignmentMemberValue,
    streams_group_records.StreamsGroupCurrentMemberAssignmentValue,
    streams_group_records.StreamsGroupTopologyValue,
    consumer_group_records.ConsumerGroupMetadataKey,
    consumer_group_records.ConsumerGroupMetadataValue,
    consumer_group_records.ConsumerGroupMemberMetadataKey,
    consumer_group_records.ConsumerGroupMemberMetadataValue,
    consumer_group_records.ConsumerGroupTargetAssignmentMetadataValue,
    consumer_group_records.ConsumerGroupTargetAssignmentMemberValue,
    consumer_group_records.ConsumerGroupCurrentMemberAssignmentValue,
    consumer_group_records.ConsumerGroupPartitionMetadataValue,
    consumer_group_records.ConsumerGroupRegularExpressionKey,
    consumer_group_records.ConsumerGroupRegularExpressionValue,
    transaction_records.TransactionLogKey,
    transaction_records.TransactionLogValue,
]

KINDS = {"bool": "boolean", "bytes": "binary"}


def schemas_of(name: str) -> list[dict[str, Any]]:
    """Return the schemas of a message, newest release of Kafka first."""

    def release(path: Path) -> list[int]:
        return [int(n) for n in re.findall(r"\d+", path.name)]

    files = sorted(Path(FOLDER).glob("*.json"), key=release, reverse=True)
    document = [content[name] for content in (json.loads(p.read_text()) for p in files) if name in content]
    if name.startswith("Share"):
        document = document[:1]  # version 0 was a preview that current releases do not serve
    return [schema for schema in document if schema["validVersions"] != "none"]


def plain(name: str) -> str:
    return name.replace("_", "").lower()


def versions_of(schemas: list[dict[str, Any]]) -> set[int]:
    return {v for v in range(100) for schema in schemas if within(v, schema["validVersions"])}


def expected_default(field: dict[str, Any]) -> Any:
    options, kind = field.get("default"), field["type"]
    if options == "null":
        return None
    if kind.startswith("[]"):
        return ()
    if kind == "string":
        return options or ""
    if kind == "bool":
        return str(options).lower() == "true"
    if kind == "bytes":
        return b""
    if kind == "float64":
        return float(options or 0)
    if kind == "uuid":
        return ZERO_UUID
    return int(str(options or 0), 0)


def compare(cls: type[Struct], fields: list[dict[str, Any]], common: dict[str, Any], version: int, where: str) -> None:
    theirs = [field for field in fields if within(version, field.get("versions", field.get("taggedVersions", "0+")))]
    ours = [field for field in cls.FIELDS if field.in_version(version)]
    assert [plain(field.name) for field in ours] == [plain(field["name"]) for field in theirs], f"{where} v{version}"
    for mine, field in zip(ours, theirs, strict=True):
        compare_field(mine, field, common, version, f"{where}.{field['name']} v{version}")


def compare_field(mine: Field, field: dict[str, Any], common: dict[str, Any], version: int, where: str) -> None:
    kind = field["type"]
    item = kind.removeprefix("[]")
    tagged = within(version, field.get("taggedVersions", "none"))
    assert (mine.tag if tagged else None) == field.get("tag"), where
    assert mine.nullable_in(version) == within(version, field.get("nullableVersions", "none")), where
    inner = field.get("fields") or common.get(item)
    if kind.startswith("[]"):
        assert mine.kind == "array", where
        if inner is None:
            assert mine.element.kind == KINDS.get(item, item), where
    elif inner is not None:
        assert mine.kind == "struct", where
    else:
        assert mine.kind == KINDS.get(kind, kind), where
    if inner is not None:
        compare(mine.element, inner, common, version, where)
    elif mine.kind != "records":
        assert mine.default == expected_default(field), where


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_declaration_equals_kafkas_schema(cls: type[Message]) -> None:
    schemas = schemas_of(cls.__name__)
    assert schemas, f"no file of {FOLDER} has {cls.__name__}"
    assert set(cls.VERSIONS) == versions_of(schemas)
    for version in cls.VERSIONS:
        schema = next(s for s in schemas if within(version, s["validVersions"]))
        flexible = within(version, schema.get("flexibleVersions", "none"))
        assert (cls.FLEXIBLE is not None and version >= cls.FLEXIBLE) == flexible, f"v{version}"
        common = {s["name"]: s["fields"] for s in schema.get("commonStructs", [])}
        compare(cls, schema["fields"], common, version, cls.__name__)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_ignorable_fields_are_those_of_kafkas_schema(cls: type[Message]) -> None:
    for schema in schemas_of(cls.__name__)[:1]:
        common = {s["name"]: s["fields"] for s in schema.get("commonStructs", [])}
        compare_ignorable(cls, schema["fields"], common, cls.VERSIONS, cls.__name__)


def compare_ignorable(cls: type[Struct], fields: list[Any], common: Any, versions: range, where: str) -> None:
    by_name = {plain(field["name"]): field for field in fields}
    for mine in cls.FIELDS:
        field = by_name.get(plain(mine.name))
        if field is None:
            continue
        if any(not mine.in_version(version) for version in versions):
            assert mine.ignorable == bool(field.get("ignorable")), f"{where}.{mine.name}"
        inner = field.get("fields") or common.get(field["type"].removeprefix("[]"))
        if inner:
            compare_ignorable(mine.element, inner, common, versions, f"{where}.{mine.name}")


def test_every_api_of_kafka_is_supported_or_has_a_reason() -> None:
    schemas = [json.loads(path.read_text()) for path in Path(FOLDER).glob("messages-*.json")]
    existing = {name.removesuffix("Request") for release in schemas for name in release if name.endswith("Request")}
    supported, unsupported = {row.name for row in SUPPORTED_APIS}, unsupported_apis().keys()
    assert existing - supported - unsupported == {"ListClientMetricsResources"}, (
        "its current name is ListConfigResources"
    )
    assert not supported & unsupported

"""The REST API of the schema registry, over a broker in this process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("starlette")
pytest.importorskip("fastavro")

from tests.unit.registry.registries import RestClient, open_registry

from ottla import KafkaConsumer, KafkaProducer
from ottla.broker.embedded import Broker
from ottla.version import __version__
from ottla_console.security.users import Credential, Role, hash_password


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[RestClient]:
    with open_registry(broker.bootstrap_servers) as client:
        yield client


def record(name: str, *fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    """Return a record schema."""
    written = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "fields": written, **more}


A = record("A", ("a", "int"))
A_WITH_DEFAULT = {"type": "record", "name": "A", "fields": [*A["fields"], {"name": "b", "type": "int", "default": 1}]}
A_WITHOUT_DEFAULT = {"type": "record", "name": "A", "fields": [*A["fields"], {"name": "b", "type": "int"}]}


def test_versions_are_registered_looked_up_and_deleted(registry: RestClient) -> None:
    first = registry.register("life-value", A)
    assert registry.register("life-value", json.dumps(A, indent=2)) == first  # the text is canonical
    second = registry.register("life-value", A_WITH_DEFAULT)
    assert second > first
    assert registry.register("other-value", A) == first
    assert registry.get("/subjects/life-value/versions") == [1, 2]
    latest = registry.get("/subjects/life-value/versions/latest")
    assert (latest["subject"], latest["version"], latest["id"]) == ("life-value", 2, second)
    assert json.loads(latest["schema"]) == A_WITH_DEFAULT
    assert registry.get("/subjects/life-value/versions/1/schema") == A
    assert registry.get(f"/schemas/ids/{first}") == {"schema": json.dumps(A, separators=(",", ":"))}
    assert registry.get(f"/schemas/ids/{first}/schema") == A
    assert registry.get(f"/schemas/ids/{first}/subjects") == ["life-value", "other-value"]
    assert {"subject": "life-value", "version": 1} in registry.get(f"/schemas/ids/{first}/versions")
    assert registry.post("/subjects/life-value", {"schema": json.dumps(A)})["version"] == 1
    assert "life-value" in registry.get("/subjects?subjectPrefix=life")
    assert len(registry.get("/schemas?subjectPrefix=life-value")) == 2
    assert len(registry.get("/schemas?subjectPrefix=life-value&latestOnly=true")) == 1

    registry.delete("/subjects/life-value/versions/1?permanent=true", error=40407)
    assert registry.delete("/subjects/life-value/versions/1") == 1
    registry.delete("/subjects/life-value/versions/1", error=40406)
    registry.get("/subjects/life-value/versions/1", error=40402)
    assert registry.get("/subjects/life-value/versions/1?deleted=true")["id"] == first
    assert registry.get(f"/schemas/ids/{first}")["schema"]  # consumers still read its records
    assert registry.delete("/subjects/life-value/versions/1?permanent=true") == 1
    registry.delete("/subjects/life-value?permanent=true", error=40405)
    assert registry.delete("/subjects/life-value") == [2]
    registry.delete("/subjects/life-value", error=40404)
    assert "life-value" not in registry.get("/subjects")
    assert registry.get("/subjects?subjectPrefix=life&deletedOnly=true") == ["life-value"]
    assert registry.register("life-value", A_WITH_DEFAULT) == second
    assert registry.get("/subjects/life-value/versions") == [3]
    registry.delete("/subjects/life-value")
    assert registry.get(f"/schemas/ids/{second}/versions") == [], "deleted"
    assert registry.get("/subjects/life-value/versions?deletedAsNegative=true") == [-3], "version 2 had the same id"
    registry.get("/subjects/life-value/versions/latest?deleted=true", error=40402)
    registry.put("/config/life-value", {"compatibility": "NONE"})
    registry.put("/mode/life-value", {"mode": "READWRITE"})
    assert registry.delete("/subjects/life-value?permanent=true") == [3]
    registry.get("/config/life-value", error=40408)
    registry.get("/mode/life-value", error=40409)
    registry.get("/subjects/life-value/versions", error=40401)


def test_invalid_requests_return_the_error_codes_of_confluent(registry: RestClient) -> None:
    registry.register("codes", A)
    registry.register("codes", "{", error=42201)
    registry.register("codes", {"type": "nonsense"}, error=42201)
    registry.register("codes", "[" * 100_000, error=42201)
    registry.register("codes", A, error=42201, schemaType="XML")
    registry.register("codes", "{" + " " * 1_000_000, error=42209)
    registry.register("nothing", " ", error=42201)
    registry.register("codes", A, error=42201, references=[{"name": "B", "subject": "none", "version": 1}])
    registry.register("codes", A, error=42201, references=3)
    registry.register("codes", A, error=42201, id="x")
    registry.register("codes", A_WITH_DEFAULT, error=42205, id=7)
    registry.post("/subjects/codes/versions", {"schema": 3}, error=42201)
    registry.post("/subjects/codes/versions", [], error=42201)
    path = "/subjects/codes/versions"
    # Numbers that JSON does not have, and half of a surrogate pair, which UTF-8 does not have.
    for part in (b'"id": 1e999', b'"metadata": {"a": NaN}', b'"metadata": {"a": "\\ud800"}', b'"references": [1e999]'):
        content = b'{"schema": "{}", ' + part + b"}"
        assert registry.client.post(path, content=content).json()["error_code"] == 400
    assert registry.client.post(path, content=b"{").json()["error_code"] == 400
    registry.register("codes", {**A, "doc": "\ud800"}, error=42201)
    fields: list[dict[str, Any]] = [
        {"metadata": [1]},
        {"metadata": {"properties": {"a": 1}}},
        {"metadata": {"a": {}}},
        {"metadata": {"tags": {"a": "b"}}},
        {"ruleSet": {"domainRules": [1]}},
        {"ruleSet": {"domainRules": [{"name": "r", "type": "CEL", "kind": "SOME"}]}},
        {"ruleSet": {"domainRules": [{"name": "r", "type": "CEL", "other": 1}]}},
        {"ruleSet": {"enableAt": "SOME"}},
        {"schemaTags": "x"},
    ]
    for malformed in fields:
        registry.register("codes", A, error=42201, **malformed)
    rule = {"name": "r", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "true"}
    for invalid in ({"name": "1"}, {"type": None}, {"mode": "UPGRADE"}, {"onFailure": "DLQ,NONE"}):
        registry.register("codes", A, error=42210, ruleSet={"domainRules": [{**rule, **invalid}]})
    registry.register("codes", A, error=42210, ruleSet={"domainRules": [rule, rule]})
    registry.register("codes", {**A, "number": float("nan")}, error=42201)
    registry.register("codes", {"minimum": float("inf")}, error=42201, schemaType="JSON")
    registry.register("codes", A_WITH_DEFAULT, error=42209, metadata={"properties": {"a": "x" * 2_000_000}})
    assert registry.client.post("/subjects/codes", content=b" " * 5_000_000).status_code == 413
    registry.get("/subjects/codes/versions/0", error=42202)
    registry.get("/subjects/codes/versions/x", error=42202)
    registry.get("/subjects/codes/versions/7", error=40402)
    registry.get("/subjects/none/versions", error=40401)
    registry.get("/subjects/none/versions/1", error=40401)
    registry.post("/subjects/none", {"schema": json.dumps(A)}, error=40401)
    registry.post("/subjects/codes", {"schema": '"int"'}, error=40403)
    registry.get("/schemas/ids/99999", error=40403)
    registry.get("/schemas/ids/x", error=404)
    registry.get("/nothing", error=404)
    registry.put("/subjects", {}, error=405)
    registry.put("/config", {"compatibility": "SOME"}, error=42203)
    registry.put("/mode", {"mode": "SOME"}, error=42204)
    registry.get("/config/codes", error=40408)
    registry.get("/mode/codes", error=40409)
    registry.get("/subjects/%00/versions", error=42208)


def test_compatibility_is_checked_at_the_level_of_the_subject(registry: RestClient) -> None:
    registry.register("levels", A)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in registry.register("levels", A_WITHOUT_DEFAULT, error=409)
    path = "/compatibility/subjects/levels/versions"
    body = {"schema": json.dumps(A_WITHOUT_DEFAULT)}
    assert registry.post(f"{path}/latest", body) == {"is_compatible": False}
    verbose = registry.post(f"{path}/1?verbose=true", body)
    assert verbose["is_compatible"] is False
    assert "description:'b'" in verbose["messages"][0]
    assert registry.put("/config/levels", {"compatibility": "forward"}) == {"compatibility": "FORWARD"}
    assert registry.get("/config/levels") == {"compatibilityLevel": "FORWARD"}
    assert registry.post(path, body) == {"is_compatible": True}
    registry.register("levels", A_WITHOUT_DEFAULT)
    registry.post(f"{path}/9", body, error=40402)
    registry.post("/compatibility/subjects/none/versions/1", body, error=40402)
    assert registry.post("/compatibility/subjects/none/versions/latest", body) == {"is_compatible": True}
    registry.post(path, {"schema": "{"}, error=42201)
    invalid = registry.post(f"{path}?verbose=true", {"schema": "{"})
    assert (invalid["is_compatible"], len(invalid["messages"])) == (False, 1)
    assert registry.delete("/config/levels") == {"compatibilityLevel": "FORWARD"}
    assert registry.get("/config/levels?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    assert registry.get("/config") == {"compatibilityLevel": "BACKWARD"}


def test_json_schemas_are_registered_and_checked_for_compatibility(registry: RestClient) -> None:
    assert registry.get("/schemas/types") == ["AVRO", "JSON", "PROTOBUF"]
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    schema_id = registry.register("json", schema, schemaType="JSON")
    assert registry.get(f"/schemas/ids/{schema_id}")["schemaType"] == "JSON"
    schema["properties"]["b"] = {"type": "string"}
    registry.register("json", schema, schemaType="JSON")
    schema["properties"]["a"] = {"type": "string"}
    assert "TYPE_CHANGED" in registry.register("json", schema, error=409, schemaType="JSON")
    assert "SCHEMA_TYPE_CHANGED" in registry.register("json", A, error=409)
    registry.register("json", {"type": "foo"}, error=42201, schemaType="JSON")


def test_protobuf_is_registered_as_text_and_as_a_descriptor(registry: RestClient) -> None:
    pytest.importorskip("grpc_tools")
    text = 'syntax = "proto3"; message A { int32 a = 1; }'
    schema_id = registry.register("protobuf", text, schemaType="PROTOBUF")
    assert registry.get(f"/schemas/ids/{schema_id}") == {"schemaType": "PROTOBUF", "schema": text}
    serialized = registry.get(f"/schemas/ids/{schema_id}?format=serialized")["schema"]
    assert registry.get("/subjects/protobuf/versions/1?format=serialized")["schema"] == serialized
    second = registry.register("protobuf", serialized, schemaType="PROTOBUF")
    assert "int32 a = 1;" in registry.get(f"/schemas/ids/{second}")["schema"]
    changed = text.replace("int32", "string")
    assert "FIELD_SCALAR_KIND_CHANGED" in registry.register("protobuf", changed, error=409, schemaType="PROTOBUF")
    registry.register("protobuf", "message", error=42201, schemaType="PROTOBUF")


def test_readonly_mode_rejects_changes_and_import_mode_accepts_ids(registry: RestClient) -> None:
    registry.register("modes", A)
    assert registry.get("/mode") == {"mode": "READWRITE"}
    assert registry.put("/mode/modes", {"mode": "READONLY"}) == {"mode": "READONLY"}
    registry.register("modes", A_WITH_DEFAULT, error=42205)
    registry.delete("/subjects/modes", error=42205)
    registry.put("/mode/modes", {"mode": "IMPORT"}, error=42205)
    assert registry.delete("/mode/modes") == {"mode": "READONLY"}
    assert registry.put("/mode/imported", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    registry.register("imported", A, error=42205)
    assert registry.register("imported", record("I", ("i", "int")), id=1000, version=5) == 1000
    assert registry.get("/subjects/imported/versions") == [5]
    registry.register("imported", '"int"', id=1000, error=42207)
    registry.register("imported", record("I", ("i", "int")), id=1000, version=6)
    assert registry.get("/subjects/imported/versions") == [5, 6]
    registry.delete("/mode/imported")
    assert registry.register("modes", A_WITH_DEFAULT) == 1001
    # Ids of versions that are deleted may be imported again.
    registry.delete("/subjects/imported")
    registry.put("/mode/imported", {"mode": "IMPORT"})
    assert registry.register("imported", '"int"', id=1000, version=1) == 1000


@pytest.mark.parametrize("mode", ["READONLY", "IMPORT"])
def test_schema_that_the_subject_has_is_registered_again_in_every_mode(registry: RestClient, mode: str) -> None:
    """Serializers register the schema of each writer to look up its id."""
    subject = f"again-{mode}"
    schema_id = registry.register(subject, record("Again", ("mode", "string")))
    registry.put(f"/mode/{subject}?force=true", {"mode": mode})
    assert registry.register(subject, record("Again", ("mode", "string"))) == schema_id
    assert registry.register(subject, record("Again", ("mode", "string")), id=schema_id) == schema_id
    registry.register(subject, record("New", ("mode", "string")), error=42205)
    assert registry.get(f"/subjects/{subject}/versions") == [1]


def test_requested_version_must_be_the_next_one(registry: RestClient) -> None:
    registry.register("next", A)
    for version in (1, 3):
        message = registry.register("next", A_WITH_DEFAULT, error=42201, version=version)
        assert message == "Invalid schema: Version is not one more than previous version"
    assert registry.get("/subjects/next/versions/1/schema") == A, "it is not overwritten"
    registry.register("next", A_WITH_DEFAULT, version=2)
    assert registry.get("/subjects/next/versions") == [1, 2]


def test_metadata_of_the_previous_version_is_inherited_unless_the_request_has_its_own(registry: RestClient) -> None:
    metadata = {"properties": {"owner": "shop", "level": "1"}}
    first = registry.register("rules", A, metadata=metadata)
    assert registry.register("rules", A) == first, "a serializer does not know the metadata"
    assert registry.post("/subjects/rules", {"schema": json.dumps(A)})["id"] == first
    second = registry.register("rules", A_WITH_DEFAULT)
    assert registry.get(f"/schemas/ids/{second}")["metadata"] == metadata
    third = registry.register("rules", "", metadata={"properties": {"owner": "lake"}})
    assert json.loads(registry.get(f"/schemas/ids/{third}")["schema"]) == A_WITH_DEFAULT
    assert registry.get("/subjects/rules/metadata?key=owner&value=shop")["version"] == 2
    assert registry.get("/subjects/rules/metadata?key=owner&value=lake")["id"] == third
    registry.get("/subjects/rules/metadata?key=owner&value=none", error=40403)
    registry.get("/subjects/none/metadata", error=40401)
    fourth = registry.register("rules", A_WITH_DEFAULT, metadata={})
    assert "metadata" not in registry.get(f"/schemas/ids/{fourth}")


def test_normalize_config_applies_and_unsupported_configs_are_rejected(registry: RestClient) -> None:
    assert registry.put("/config/normal", {"normalize": True}) == {"normalize": True}
    assert registry.get("/config/normal?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD", "normalize": True}
    schema = {**A, "b": 1, "a": 2}
    schema_id = registry.register("normal", schema)
    assert registry.register("normal", {**A, "a": 2, "b": 1}) == schema_id
    assert registry.post("/subjects/normal", {"schema": json.dumps(schema)})["version"] == 1
    assert "validateFields is not supported" in registry.put("/config/normal", {"validateFields": True}, error=422)
    registry.put("/config", {}, error=42203)
    malformed: list[dict[str, Any]] = [
        {"normalize": 1},
        {"alias": 1},
        {"compatibilityGroup": []},
        {"defaultMetadata": {"properties": {"a": 1}}},
        {"overrideRuleSet": {"domainRules": [{"name": 1}]}},
    ]
    for config in malformed:
        registry.put("/config/normal", config, error=422)
    registry.put("/config/normal", {"normalize": None, "compatibility": "FULL"})
    assert registry.get("/config/normal") == {"compatibilityLevel": "FULL"}, "null removes a setting"
    assert registry.put("/config/normal", {"compatibility": None, "normalize": None}) == {}, "no setting is left"
    registry.put("/config/:.:", {"compatibility": "FULL"})  # the default context
    assert registry.get("/config") == registry.get("/config/:.:") == {"compatibilityLevel": "FULL"}
    assert registry.delete("/config/:.:") == {"compatibilityLevel": "FULL"}


def test_defaults_and_overrides_of_a_config_are_in_new_schemas(registry: RestClient) -> None:
    def rule(name: str, expr: str = "true") -> dict[str, Any]:
        return {"name": name, "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": expr}

    config = {
        "defaultMetadata": {"properties": {"owner": "none", "level": "1"}, "sensitive": ["b"]},
        "overrideMetadata": {"properties": {"company": "shop"}, "tags": {"a": ["PII"]}},
        "defaultRuleSet": {"domainRules": [rule("first"), rule("second")]},
        "overrideRuleSet": {"domainRules": [rule("third")], "enableAt": "CLIENT"},
    }
    assert registry.put("/config/contracts", config) == registry.get("/config/contracts") == config
    own = {"properties": {"owner": "lake"}, "sensitive": ["a"]}
    first = registry.register("contracts", A, metadata=own, ruleSet={"domainRules": [rule("first", "false")]})
    stored = registry.get(f"/schemas/ids/{first}")
    assert stored["metadata"] == {
        "properties": {"owner": "lake", "level": "1", "company": "shop"},
        "sensitive": ["a", "b"],
        "tags": {"a": ["PII"]},
    }
    assert stored["ruleSet"] == {
        "domainRules": [rule("second"), rule("first", "false"), rule("third")],
        "enableAt": "CLIENT",
    }
    assert registry.register("contracts", A) == first, "a serializer does not know the metadata"
    assert registry.post("/subjects/contracts", {"schema": json.dumps(A)})["id"] == first
    listed = registry.get("/schemas?subjectPrefix=contracts&ruleType=CEL")
    assert [schema["id"] for schema in listed] == [first]
    assert registry.get("/schemas?subjectPrefix=contracts&ruleType=JSONATA") == []


def test_compatibility_group_checks_versions_with_the_same_value_only(registry: RestClient) -> None:
    registry.put("/config/groups", {"compatibilityGroup": "major"})
    registry.register("groups", A, metadata={"properties": {"major": "1"}})
    other = record("A", ("b", "string"))
    registry.register("groups", other, error=409, metadata={"properties": {"major": "1"}})
    registry.register("groups", other, error=409)  # without metadata it has those of the version before
    registry.register("groups", other, metadata={"properties": {"major": "2"}})
    body = {"schema": json.dumps(A_WITH_DEFAULT), "metadata": {"properties": {"major": "1"}}}
    path = "/compatibility/subjects/groups/versions"
    assert registry.post(path, body) == {"is_compatible": True}
    assert registry.post(path, {**body, "schema": json.dumps(A_WITHOUT_DEFAULT)}) == {"is_compatible": False}


def test_alias_is_another_name_of_a_subject(registry: RestClient) -> None:
    schema_id = registry.register("long.name-value", A)
    registry.put("/config/short", {"alias": "long.name-value"})
    assert registry.get("/config/short") == {"alias": "long.name-value"}
    assert registry.get("/subjects/short/versions/latest")["subject"] == "long.name-value"
    assert registry.post("/subjects/short", {"schema": json.dumps(A)})["id"] == schema_id
    assert registry.get(f"/schemas/ids/{schema_id}?subject=short")["schema"]
    registry.register("short", A_WITH_DEFAULT)
    registry.register("short", '"int"', error=409)
    path = "/compatibility/subjects/short/versions"
    assert registry.post(path, {"schema": '"int"'}) == {"is_compatible": False}
    assert registry.get("/subjects/long.name-value/versions") == [1, 2]
    assert "short" not in registry.get("/subjects")
    registry.put("/config/:.aliased:short", {"alias": "long"})
    registry.register(":.aliased:short", A)
    assert registry.get("/subjects/:.aliased:long/versions") == [1], "an alias is in its own context"
    registry.put("/config/short", {"alias": None, "compatibility": "NONE"})
    registry.get("/subjects/short/versions", error=40401)


def test_schemas_have_a_guid_that_does_not_depend_on_the_registry(registry: RestClient) -> None:
    registry.client.headers["Confluent-Accept-Unknown-Properties"] = "true"
    try:
        body = {"schema": '"float"'}
        registered = registry.post("/subjects/guids/versions", body)
        guid = str(UUID(bytes=hashlib.md5(b'"float"').digest()))
        assert registered == {"id": registered["id"], "guid": guid}
        assert registry.post("/subjects/:.guids:s/versions", body) == {"id": 1, "guid": guid}
        assert registry.post("/subjects/guids", body)["guid"] == guid
        assert registry.get("/subjects/guids/versions/1")["guid"] == guid
        assert registry.get(f"/schemas/ids/{registered['id']}") == {**body, "guid": guid}
        assert registry.get("/schemas?subjectPrefix=guids")[0]["guid"] == guid
    finally:
        del registry.client.headers["Confluent-Accept-Unknown-Properties"]
    assert registry.get(f"/schemas/guids/{guid}") == body
    ids = [{"context": ".", "id": registered["id"]}, {"context": ".guids", "id": 1}]
    assert registry.get(f"/schemas/guids/{guid}/ids") == ids
    registry.get(f"/schemas/guids/{UUID(int=0)}", error=40403)
    registry.get("/schemas/guids/x/ids", error=40403)
    assert registry.post("/subjects/guids/versions", body) == {"id": registered["id"]}, "older clients would fail"


def test_responses_have_the_content_type_that_the_client_accepts(registry: RestClient) -> None:
    usual, plain = "application/vnd.schemaregistry.v1+json", "application/json"
    for accept, expected in {
        "*/*": usual,
        f"{usual}, {plain}": usual,
        plain: plain,
        f"{plain}; q=0.9, {usual};q=0.5": plain,
        "application/vnd.schemaregistry+json": "application/vnd.schemaregistry+json",
        "text/html, */*;q=0.1": usual,
        "text/html": usual,
        "*/*;q=x": usual,
    }.items():
        response = registry.client.get("/subjects/none/versions", headers={"Accept": accept})
        assert response.headers["content-type"] == expected


def test_registry_returns_its_version_the_id_of_its_cluster_and_the_highest_id(registry: RestClient) -> None:
    clusters = registry.get("/v1/metadata/id")["scope"]["clusters"]
    assert clusters["kafka-cluster"]
    assert clusters["schema-registry-cluster"] == "schema-registry"
    assert registry.get("/v1/metadata/version")["version"] == __version__
    assert registry.get("/") == registry.post("/", {}) == {}
    registry.register(":.highest:s", '"int"')
    registry.register(":.highest:t", '"long"')
    assert registry.get("/schemas/ids/1?subject=:.highest:&fetchMaxId=true") == {"schema": '"int"', "maxId": 2}


def test_avro_schema_is_returned_with_the_types_that_it_references(registry: RestClient) -> None:
    city = record("City", ("name", "string"))
    registry.register("resolved-city", city)
    reference = {"name": "City", "subject": "resolved-city", "version": 1}
    schema_id = registry.register("resolved", record("Home", ("city", "City")), references=[reference])
    resolved = record("Home", ("city", city))
    for path in (f"/schemas/ids/{schema_id}", "/subjects/resolved/versions/1"):
        assert json.loads(registry.get(f"{path}?format=resolved")["schema"]) == resolved
        assert registry.get(f"{path}/schema?format=resolved") == resolved
        assert registry.get(f"{path}/schema?format=other") == record("Home", ("city", "City"))


def test_contexts_have_separate_ids_and_referenced_schemas_cannot_be_deleted(registry: RestClient) -> None:
    registry.register("plain/subject", record("Address", ("city", "string")))
    assert registry.get("/subjects/plain%2Fsubject/versions") == [1]
    subject = ":.staging:address"
    assert registry.register(subject, record("Address", ("city", "string"))) == 1
    reference = {"name": "Address", "subject": "address", "version": 1}
    customer = record("Customer", ("address", "Address"))
    assert registry.register(":.staging:customer", customer, references=[reference]) == 2
    assert {".", ".staging"} <= set(registry.get("/contexts"))
    assert registry.get("/contexts?contextPrefix=.s") == [".staging"]
    # A subject without a context is searched for in all contexts.
    assert registry.get("/subjects/customer/versions/latest")["subject"] == ":.staging:customer"
    body = {"schema": json.dumps(customer), "references": [reference]}
    assert registry.post("/subjects/customer", body)["id"] == 2
    assert registry.get("/schemas/ids/2?subject=customer")["references"] == [reference]
    assert subject not in [schema["subject"] for schema in registry.get("/schemas")]
    assert subject in [schema["subject"] for schema in registry.get("/schemas?subjectPrefix=:*:")]
    latest = {**reference, "version": -1}
    registry.register(":.staging:latest", record("Latest", ("address", "Address")), references=[latest])
    assert registry.delete("/subjects/:.staging:latest") == [1]
    assert registry.get("/schemas/ids/2?subject=:.staging:")["references"] == [reference]
    assert registry.get("/subjects?subjectPrefix=:.staging:") == [subject, ":.staging:customer"]
    assert subject not in registry.get("/subjects?subjectPrefix=")
    assert registry.get(f"/subjects/{subject}/versions/1/referencedby") == [2]
    registry.delete(f"/subjects/{subject}", error=42206)
    registry.delete("/subjects/:.staging:customer")
    assert registry.get(f"/subjects/{subject}/versions/1/referencedby") == []
    assert registry.get(f"/subjects/{subject}/versions/1/referencedby?deleted=true") == [2, 3]
    assert registry.delete(f"/subjects/{subject}") == [1]
    registry.delete(f"/subjects/{subject}?permanent=true", error=42206)
    _check_resolved(registry)
    registry.register("own", record("Own", ("n", "int")))
    registry.put("/config/own", {"compatibility": "NONE"})
    itself = {"name": "Own", "subject": "own", "version": 1}
    registry.register("own", record("Second", ("own", "Own")), references=[itself])
    assert registry.delete("/subjects/own") == registry.delete("/subjects/own?permanent=true") == [1, 2]
    registry.get("/subjects/:.:levels-of-none/versions", error=40401)


def _check_resolved(registry: RestClient) -> None:
    """Check that a schema with all types in it is the version that has references to them."""
    color = {"type": "enum", "name": "Color", "symbols": ["RED"]}
    part = record("Part", ("color", color), namespace="shop")
    registry.register("part", part)
    fields: tuple[tuple[str, Any], ...] = (("first", "Part"), ("others", {"type": "array", "items": "shop.Part"}))
    order = record("Order", *fields, ("color", ["null", "Color"]), namespace="shop")
    reference = {"name": "shop.Part", "subject": "part", "version": 1}
    order_id = registry.register("order", order, references=[reference])
    whole = record("Order", ("first", part), fields[1], ("color", ["null", "Color"]), namespace="shop")
    assert registry.post("/subjects/order", {"schema": json.dumps(whole)})["id"] == order_id
    assert registry.register("order", whole) == order_id
    other = record("Order", ("first", {**part, "doc": "x"}), fields[1], ("color", ["null", "Color"]), namespace="shop")
    registry.post("/subjects/order", {"schema": json.dumps(other)}, error=40403)


def test_restarted_registry_reads_its_records_and_those_of_confluent(broker: Broker) -> None:
    with open_registry(broker.bootstrap_servers, "other_schemas") as registry:
        registry.register("s", A)
        registry.put("/config", {"compatibility": "FULL"})
        registry.put("/mode/s", {"mode": "READONLY"})
        registry.register(":.c:s", '"int"')
    with KafkaConsumer(
        "other_schemas", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        stored = [next(consumer) for _ in range(5)]
    assert (stored.pop(3).key, stored.pop().key) == (
        b'{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}',
        b'{"keytype":"SCHEMA","subject":":.c:s","version":1,"magic":1}',
    )
    assert [(record.key, record.value) for record in stored] == [
        (
            b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            b'{"subject":"s","version":1,"id":1,"schema":"'
            + json.dumps(A, separators=(",", ":")).replace('"', '\\"').encode()
            + b'","deleted":false}',
        ),
        (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}'),
        (b'{"keytype":"MODE","subject":"s","magic":0}', b'{"mode":"READONLY"}'),
    ]
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for key, value in (
            (b'{"keytype":"NOOP","magic":0}', None),
            (b'{"keytype":"CONFIG","subject":"t","magic":0}', b'{"subject":"t","alias":null,"normalize":true}'),
            (b"malformed", b"{}"),
            (b'{"keytype":"FUTURE","magic":9}', b"{}"),
            (
                b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}',
                b'{"subject":"t","version":1,"id":9,"md5":"x","schema":"\\"int\\"","deleted":false}',
            ),
            (b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', b'{"subject":"s","version":1}'),
        ):
            producer.send("other_schemas", value, key=key)
    with open_registry(broker.bootstrap_servers, "other_schemas") as registry:
        assert registry.get("/config") == {"compatibilityLevel": "FULL"}
        assert registry.get("/config/t") == {"normalize": True}
        assert registry.get("/mode/s") == {"mode": "READONLY"}
        assert registry.get("/subjects?subjectPrefix=") == ["t"]
        assert registry.get("/subjects?deleted=true") == [":.c:s", "s", "t"]
        registry.delete("/subjects/:.c:s")
        registry.delete("/subjects/:.c:s?permanent=true")
        assert registry.get("/contexts") == [".", ".c"]
        assert registry.register("t", '"int"') == 9
        assert registry.register("u", '"long"') == 10


def test_registries_of_one_topic_never_assign_an_id_or_version_twice(broker: Broker) -> None:
    def register(registry: RestClient, number: int) -> dict[str, int]:
        subjects = [f"s-{number}-{i}" for i in range(6)]
        return {subject: registry.register(subject, record(subject.replace("-", "_"))) for subject in subjects}

    with ExitStack() as stack:
        registries = [stack.enter_context(open_registry(broker.bootstrap_servers, "shared_schemas")) for _ in range(3)]
        with ThreadPoolExecutor() as pool:
            results = list(pool.map(register, registries, range(3)))
        ids = {subject: schema_id for result in results for subject, schema_id in result.items()}
        assert sorted(ids.values()) == list(range(1, 19))
        registries[0].put("/mode", {"mode": "READONLY"})
        registries[1].register("s-0-0", A, error=42205)
        for registry in registries:
            assert {s: registry.get(f"/subjects/{s}/versions/1")["id"] for s in registry.get("/subjects")} == ids


def test_users_have_the_permissions_of_their_roles(broker: Broker) -> None:
    hashed = hash_password("secret")
    users = {role.name.lower(): Credential(role, hashed) for role in Role}
    with open_registry(broker.bootstrap_servers, "secured_schemas", users) as registry:
        registry.get("/subjects", error=40101)
        for header in ("Basic !", "Basic dmlld2Vy", "Bearer x", "Basic dmlld2VyOndyb25n"):
            response = registry.client.get("/subjects", headers={"Authorization": header})
            assert response.status_code == 401
            assert response.headers["www-authenticate"].startswith("Basic")
        registry.client.auth = ("viewer", "secret")
        assert registry.get("/subjects") == []
        registry.register("s", A, error=40301)
        registry.client.auth = ("editor", "secret")
        assert registry.register("s", A) == 1
        registry.put("/config", {"compatibility": "FULL"}, error=40301)
        registry.delete("/subjects/s", error=40301)
        registry.client.auth = ("viewer", "secret")
        assert registry.post("/subjects/s", {"schema": json.dumps(A)})["id"] == 1
        registry.client.auth = ("admin", "secret")
        assert registry.delete("/subjects/s") == [1]

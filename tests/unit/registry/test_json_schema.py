"""JSON Schemas: validation, canonical text and compatibility."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("jsonschema")

from ottla_registry.schemas.json_schema import JsonSchema
from ottla_registry.schemas.parsed import ReferencedSchema


def schema(document: Any) -> JsonSchema:
    return JsonSchema(json.dumps(document))


def opened(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def closed(*required: str, **properties: Any) -> dict[str, Any]:
    return {**opened(**properties), "additionalProperties": False, "required": list(required)}


INT, TEXT, NUMBER = {"type": "integer"}, {"type": "string"}, {"type": "number"}
LIST = {"definitions": {"n": {"type": "object", "properties": {"next": {"$ref": "#/definitions/n"}, "v": INT}}}}
TUPLE = {"prefixItems": [INT], "unevaluatedItems": TEXT}
CONTAINS = {"type": "array", "contains": INT}
PAIRS = [
    # reader, writer, the error or None
    ({"anyOf": [INT, TEXT]}, {"allOf": [TEXT, {"maxLength": 5}]}, None),
    (INT, {"allOf": [TEXT, {"maxLength": 5}]}, "TYPE_NARROWED"),
    ({"properties": {"a": INT}, "unevaluatedProperties": False}, {"unevaluatedProperties": False}, None),
    (
        {"properties": {"a": INT}, "required": ["a"], "additionalProperties": INT},
        {"additionalProperties": INT},
        "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
    ),
    ({**TUPLE, "prefixItems": [INT, TEXT]}, TUPLE, None),
    (TUPLE, {**TUPLE, "prefixItems": [INT, INT]}, "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"),
    ({**CONTAINS, "minContains": 1}, CONTAINS, None),
    ({**CONTAINS, "minContains": 2}, CONTAINS, "MIN_CONTAINS_INCREASED"),
    ({**CONTAINS, "maxContains": 2}, CONTAINS, "MAX_CONTAINS_DECREASED"),
    (TEXT, TEXT, None),
    ({**TEXT, "title": "a", "default": "x"}, TEXT, None),
    (NUMBER, INT, None),
    (INT, NUMBER, "TYPE_NARROWED"),
    (INT, TEXT, "TYPE_CHANGED"),
    (INT, {}, "TYPE_NARROWED"),
    ({}, INT, None),
    (True, INT, None),
    (False, INT, "SCHEMA_ADDED"),
    ({"type": ["string", "null"]}, TEXT, None),
    (TEXT, {"type": ["string", "null"]}, "TYPE_NARROWED"),
    ({"anyOf": [TEXT, INT]}, TEXT, None),
    ({"oneOf": [TEXT, INT]}, {"oneOf": [INT]}, None),
    ({"oneOf": [TEXT, INT]}, {"oneOf": [INT, {"type": "null"}]}, "SUM_TYPE_NARROWED"),
    (TEXT, {"anyOf": [TEXT, INT]}, "TYPE_CHANGED"),
    ({"allOf": [TEXT]}, {"allOf": [TEXT, {"maxLength": 3}]}, None),
    ({"allOf": [TEXT, {"maxLength": 3}]}, {"allOf": [TEXT]}, "PRODUCT_TYPE_EXTENDED"),
    ({"not": INT}, {"not": NUMBER}, None),
    ({"not": NUMBER}, {"not": INT}, "NOT_TYPE_EXTENDED"),
    ({"enum": ["a", "b"]}, {"enum": ["a"]}, None),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}, "ENUM_ARRAY_NARROWED"),
    ({"enum": ["a"]}, TEXT, "ENUM_ARRAY_CHANGED"),
    ({"enum": ["a"]}, {"const": "a"}, None),
    ({**TEXT, "maxLength": 5}, {**TEXT, "maxLength": 4}, None),
    ({**TEXT, "maxLength": 4}, {**TEXT, "maxLength": 5}, "MAX_LENGTH_DECREASED"),
    ({**INT, "minimum": 1}, INT, "MINIMUM_ADDED"),
    ({**INT, "minimum": 2}, {**INT, "minimum": 1}, "MINIMUM_INCREASED"),
    (TEXT, {**TEXT, "pattern": "a"}, None),
    ({**TEXT, "pattern": "a"}, TEXT, "PATTERN_ADDED"),
    ({**INT, "multipleOf": 2}, {**INT, "multipleOf": 4}, None),
    ({**INT, "multipleOf": 4}, {**INT, "multipleOf": 2}, "MULTIPLE_OF_CHANGED"),
    (opened(a=INT), opened(), "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
    (opened(a={}), opened(), None),
    (opened(), opened(a=INT), None),
    (closed(a=INT), closed(), None),
    (closed("a", a=INT), closed(), "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"),
    (closed("a", a={**INT, "default": 1}), closed(), None),
    (closed(), closed(a=INT), "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
    (closed("a", a=INT), closed(a=INT), "REQUIRED_ATTRIBUTE_ADDED"),
    (closed(a=INT), closed("a", a=INT), None),
    (opened(a=NUMBER), opened(a=INT), None),
    (opened(a=INT), opened(a=TEXT), "TYPE_CHANGED"),
    (closed(), opened(), "ADDITIONAL_PROPERTIES_REMOVED"),
    (opened(), closed(), None),
    ({**opened(), "additionalProperties": INT}, opened(), "ADDITIONAL_PROPERTIES_NARROWED"),
    ({**opened(a=NUMBER), "additionalProperties": INT}, {**opened(), "additionalProperties": INT}, None),
    ({**opened(a=TEXT), "additionalProperties": INT}, {**opened(), "additionalProperties": INT}, "NOT_COVERED"),
    ({**closed(), "patternProperties": {"^a": NUMBER}}, closed(a=INT), None),
    ({**opened(), "dependentRequired": {"a": ["b"]}}, opened(), "DEPENDENCY_ARRAY_EXTENDED"),
    (opened(), {**opened(), "dependencies": {"a": ["b"]}}, None),
    ({"type": "array", "items": NUMBER}, {"type": "array", "items": INT}, None),
    ({"type": "array", "items": INT}, {"type": "array", "items": TEXT}, "TYPE_CHANGED"),
    ({"type": "array", "items": INT}, {"type": "array"}, "TYPE_NARROWED"),
    ({"type": "array", "uniqueItems": True}, {"type": "array"}, "UNIQUE_ITEMS_ADDED"),
    ({"type": "array", "items": [INT]}, {"type": "array", "items": [INT, TEXT]}, None),
    (
        {"type": "array", "items": [INT], "additionalItems": False},
        {"type": "array", "items": [INT, TEXT]},
        "NOT_COVERED",
    ),
    ({**LIST, "$ref": "#/definitions/n"}, {**LIST, "$ref": "#/definitions/n"}, None),
    ({"oneOf": [opened(a=TEXT), opened(b=INT)]}, {"anyOf": [opened(a=TEXT), opened(b=INT)]}, "COMBINED_TYPE_CHANGED"),
    ({"anyOf": [opened(a=TEXT), opened(b=INT)]}, {"oneOf": [opened(a=TEXT), opened(b=INT)]}, None),
]


@pytest.mark.parametrize(("reader", "writer", "error"), PAIRS)
def test_compatibility_of_json_schemas(reader: Any, writer: Any, error: str | None) -> None:
    errors = schema(reader).cannot_read(schema(writer))
    assert (errors == []) if error is None else (errors and error in errors[0]), errors


@pytest.mark.parametrize(("draft", "error"), [("draft-07/schema#", None), ("draft/2020-12/schema", "TYPE_CHANGED")])
def test_siblings_of_a_reference_apply_since_draft_2019_09(draft: str, error: str | None) -> None:
    def with_sibling(kind: str) -> JsonSchema:
        return schema(
            {
                "$schema": f"https://json-schema.org/{draft}",
                "$defs": {"base": {"type": "object"}},
                "properties": {"p": {"$ref": "#/$defs/base", "properties": {"x": {"type": kind}}}},
            }
        )

    differences = with_sibling("integer").cannot_read(with_sibling("string"))
    assert ([] if error is None else [error]) == [text.split("'")[1] for text in differences]
    assert with_sibling("string").cannot_read(with_sibling("string")) == []


def test_recursive_schemas_are_compared_until_no_assumption_is_wrong() -> None:
    def node(kind: str, *kinds: str) -> dict[str, Any]:
        parts = [{"$ref": f"#/definitions/{name}"} for name in kinds]
        return {"type": "object", "properties": {"id": {"type": kind}, "next": {"oneOf": parts}}}

    def document(first: str, second: str, third: str) -> JsonSchema:
        nodes = {"a": node(first, "a", "b"), "b": node(second, "c", "b"), "c": node(third, "a")}
        parts = [{"$ref": "#/definitions/a"}, {"$ref": "#/definitions/b"}]
        return schema({"definitions": nodes, "properties": {"root": {"oneOf": parts}}})

    # {"root": {"id": "text", "next": {"id": true, "next": {"id": "text"}}}} has no place in the second one
    assert document("boolean", "string", "boolean").cannot_read(document("string", "boolean", "string"))
    assert document("string", "boolean", "string").cannot_read(document("string", "boolean", "string")) == []


def test_text_is_canonical_and_references_are_resolved() -> None:
    assert schema({"type": "string", "title": "ä"}).canonical == '{"type":"string","title":"ä"}'
    assert schema({"type": "string", "title": "ä"}).normalized == '{"title":"ä","type":"string"}'
    text = json.dumps(opened(a={"$ref": "other.json#/$defs/x"}, b={"$ref": "other.json#named"}))
    new, old = (
        JsonSchema(text, [ReferencedSchema("other.json", json.dumps({"$defs": {"x": x, "y": {"$anchor": "named"}}}))])
        for x in (INT, NUMBER)
    )
    assert new.cannot_read(old) == ["{errorType:'TYPE_NARROWED', path:'#/properties/a'}"]
    assert old.cannot_read(new) == []


@pytest.mark.parametrize(
    "document",
    [
        3,
        None,
        {"type": "foo"},
        {"properties": 3},
        {"$ref": "#/definitions/none"},
        {"$ref": "none.json"},
        {"$ref": "#none"},
        *(opened(**{name: {"$ref": "#/definitions/none"}}) for name in ("default", "const", "enum", "examples")),
        {"definitions": {"default": {"$ref": "none.json"}}},
        {"$schema": 7},
        {"$schema": {}},
        {"a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}},
    ],
)
def test_invalid_schema_is_rejected(document: Any) -> None:
    with pytest.raises(ValueError, match="."):
        schema(document)


def test_reference_of_a_property_with_the_name_of_a_keyword_is_resolved_in_its_own_document() -> None:
    text = json.dumps({"$ref": "other.json"})
    new, old = (
        JsonSchema(
            text,
            [ReferencedSchema("other.json", json.dumps({"$defs": {"x": x}, **opened(default={"$ref": "#/$defs/x"})}))],
        )
        for x in (INT, NUMBER)
    )
    assert new.cannot_read(old) == ["{errorType:'TYPE_NARROWED', path:'#/properties/default'}"]
    assert schema({"default": {"$ref": "#/none"}, "enum": [{"$ref": "#/none"}]}).canonical  # data, no references


def test_schema_with_too_many_alternatives_is_rejected() -> None:
    branches = {"allOf": [{"anyOf": [{"maxLength": i} for i in range(400)]}], "anyOf": [{}] * 1001}
    with pytest.raises(ValueError, match="alternatives"):
        schema(branches).cannot_read(schema(branches))
    with pytest.raises(ValueError, match="deeply|recursion"):
        JsonSchema('{"not":' * 3000 + "{}" + "}" * 3000)

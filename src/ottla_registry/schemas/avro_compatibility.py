"""Compatibility of Avro schemas, by the rules of schema resolution in Avro's specification.

The schemas are those that fastavro has parsed, with full names. The errors have the names of Avro's
`SchemaCompatibility.SchemaIncompatibilityType`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

PROMOTIONS: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}
"""For a reader's type, the other types that it can read."""
NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


class AvroReader:
    """Compares a reader's schema with a writer's.

    Args:
        reader_types: the reader's named types, by full name.
        writer_types: the writer's named types.
    """

    def __init__(self, reader_types: Mapping[str, Any], writer_types: Mapping[str, Any]) -> None:
        self._reader_types = reader_types
        self._writer_types = writer_types
        self._results: dict[tuple[str, str], list[str]] = {}

    def differences(self, reader: Any, writer: Any, path: str = "/") -> list[str]:
        """Return the differences that prevent the reader from reading the writer's data; empty if there are none."""
        reader, writer = _resolved(reader, self._reader_types), _resolved(writer, self._writer_types)
        if isinstance(writer, list):
            return self._from_union(reader, writer, path)
        if isinstance(reader, list):
            return self._to_union(reader, writer, path)
        kind, writer_kind = _kind(reader), _kind(writer)
        if kind != writer_kind:
            if writer_kind in PROMOTIONS.get(kind, ()):
                return []
            return [
                _error(
                    "TYPE_MISMATCH",
                    f"reader type: {kind.upper()} not compatible with writer type: {writer_kind.upper()}",
                    path,
                )
            ]
        if kind in NAMED:
            return self._named(kind, reader, writer, path)
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            return self.differences(reader[part], writer[part], f"{path.rstrip('/')}/{part}")
        return []

    def _from_union(self, reader: Any, writer: list[Any], path: str) -> list[str]:
        """Compare each branch of the writer: all of them must be readable."""
        errors = [error for branch in writer for error in self.differences(reader, branch, path)]
        if errors and isinstance(reader, list):
            return [error for error in errors if "MISSING_UNION_BRANCH" in error] or errors
        return errors

    def _to_union(self, reader: list[Any], writer: Any, path: str) -> list[str]:
        """Return an error unless a branch of the reader's union can read the writer's data."""
        for branch in reader:
            if not self.differences(branch, writer, path):
                return []
        return [_error("MISSING_UNION_BRANCH", f"reader union lacks writer type: {_kind(writer).upper()}", path)]

    def _named(self, kind: str, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[str]:
        pair = (str(reader["name"]), str(writer["name"]))
        if pair not in self._results:
            self._results[pair] = []  # a recursive type is compatible as far as it has been compared
            self._results[pair] = self._compare_named(kind, reader, writer, path)
        return self._results[pair]

    def _compare_named(self, kind: str, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[str]:
        errors = []
        path = path.rstrip("/")
        # "both schemas have the same (unqualified) name": namespaces are not compared
        if _unqualified(reader) != _unqualified(writer) and writer["name"] not in _aliases(reader):
            errors.append(_error("NAME_MISMATCH", f"expected: {writer['name']}", f"{path}/name"))
        if kind == "record":
            errors += self._fields(reader, writer, path)
        elif kind == "fixed" and reader["size"] != writer["size"]:
            description = f"expected: {writer['size']}, found: {reader['size']}"
            errors.append(_error("FIXED_SIZE_MISMATCH", description, f"{path}/size"))
        elif kind == "enum" and "default" not in reader:
            missing = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
            if missing:
                errors.append(_error("MISSING_ENUM_SYMBOLS", f"[{', '.join(missing)}]", f"{path}/symbols"))
        return errors

    def _fields(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[str]:
        writer_fields = {field["name"]: field for field in writer["fields"]}
        errors: list[str] = []
        for index, field in enumerate(reader["fields"]):
            at = f"{path.rstrip('/')}/fields/{index}"
            names = (field["name"], *(field.get("aliases") or ()))
            writer_field = next((writer_fields[name] for name in names if name in writer_fields), None)
            if writer_field is not None:
                errors += self.differences(field["type"], writer_field["type"], f"{at}/type")
            elif "default" not in field:
                errors.append(_error("READER_FIELD_MISSING_DEFAULT_VALUE", str(field["name"]), at))
        return errors


def _resolved(schema: Any, types: Mapping[str, Any]) -> Any:
    """Return the definition of a named type that `schema` refers to, and any other schema unchanged."""
    if isinstance(schema, str):
        return types.get(schema, schema)
    if isinstance(schema, dict) and isinstance(schema.get("type"), str) and schema["type"] in types:
        return types[schema["type"]]
    return schema


def _kind(schema: Any) -> str:
    kind = schema if isinstance(schema, str) else str(schema["type"])
    return "record" if kind == "error" else kind


def _unqualified(schema: Mapping[str, Any]) -> str:
    return str(schema["name"]).rpartition(".")[2]


def _aliases(schema: Mapping[str, Any]) -> set[str]:
    """Return the full names of the aliases."""
    namespace = str(schema["name"]).rpartition(".")[0]
    aliases = schema.get("aliases") or ()
    return {alias if "." in alias or not namespace else f"{namespace}.{alias}" for alias in aliases}


def _error(kind: str, description: str, path: str) -> str:
    return f"{{errorType:'{kind}', description:'{description}', path:'{path}'}}"

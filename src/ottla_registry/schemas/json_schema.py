"""JSON Schema: validation of schemas by the package jsonschema, and their canonical text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ottla_registry import strict_json
from ottla_registry.schemas.json_compatibility import JsonReader
from ottla_registry.schemas.json_documents import JsonDocuments
from ottla_registry.schemas.parsed import ReferencedSchema


class JsonSchema:
    """A parsed JSON Schema, of draft 7 unless its `$schema` names another one. Raises ValueError if it is invalid.

    Args:
        text: the schema in JSON.
        references: the schemas that it uses by name.
    """

    def __init__(self, text: str, references: Sequence[ReferencedSchema] = ()) -> None:
        from jsonschema import Draft7Validator
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for

        try:
            self.document: Any = strict_json.loads(text)
            if not isinstance(self.document, (dict, bool)):
                raise ValueError("a JSON Schema must be an object or a boolean")
            if isinstance(self.document, dict) and not isinstance(self.document.get("$schema", ""), str):
                raise ValueError('"$schema" must be a string')
            validator_for(self.document, default=Draft7Validator).check_schema(self.document)
            others = {reference.name: json.loads(reference.schema) for reference in references}
            self.documents = JsonDocuments(self.document, others)
        except SchemaError as error:
            path = "/".join(map(str, error.absolute_path))
            raise ValueError(f"{error.message:.500} at #/{path}") from None
        except RecursionError:
            raise ValueError("the schema is nested too deeply") from None

    @property
    def canonical(self) -> str:
        """The schema as compact JSON."""
        return json.dumps(self.document, separators=(",", ":"), ensure_ascii=False)

    @property
    def normalized(self) -> str:
        """The canonical text with the names in each object in alphabetical order."""
        return json.dumps(self.document, separators=(",", ":"), ensure_ascii=False, sort_keys=True)

    def cannot_read(self, writer: JsonSchema) -> list[str]:
        """Return the reasons why this schema is incompatible with data of `writer`; empty if it is compatible."""
        return JsonReader(self.documents, writer.documents).differences(writer.document, self.document)

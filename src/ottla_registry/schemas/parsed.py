"""The interface of schemas of all types, and the levels of compatibility."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol


class ReferencedSchema(NamedTuple):
    """The text of a schema that another one references, by its name there. It comes after those that it references."""

    name: str
    schema: str


class ParsedSchema(Protocol):
    """A valid schema."""

    @property
    def canonical(self) -> str:
        """The text that is stored. Equal schemas have the same one."""

    @property
    def normalized(self) -> str:
        """The text that is stored for requests with `normalize=true`: insignificant order is removed, too."""

    def cannot_read(self, writer: Any) -> list[str]:
        """Return why this schema cannot read data of `writer`, a schema of the same type; empty if it can."""


class Compatibility(Enum):
    """A level of compatibility: which versions are checked, and in which direction."""

    NONE = (False, False, False)
    BACKWARD = (True, False, False)
    BACKWARD_TRANSITIVE = (True, False, True)
    FORWARD = (False, True, False)
    FORWARD_TRANSITIVE = (False, True, True)
    FULL = (True, True, False)
    FULL_TRANSITIVE = (True, True, True)

    def check(self, new: ParsedSchema, versions: Sequence[ParsedSchema]) -> list[str]:
        """Return why a new schema is not compatible with earlier versions, the oldest first; empty if it is."""
        backward, forward, is_transitive = self.value
        for old in reversed(versions if is_transitive else versions[-1:]):
            if type(new) is not type(old) and self is not Compatibility.NONE:
                return ["{errorType:'SCHEMA_TYPE_CHANGED', description:'The type of the schema is different'}"]
            reasons = (new.cannot_read(old) if backward else []) + (old.cannot_read(new) if forward else [])
            if reasons:
                return reasons
        return []

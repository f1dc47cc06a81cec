"""The interface of parsed schemas, and the compatibility levels."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol


class ReferencedSchema(NamedTuple):
    """A schema that another one references: the name by which it is referenced, and its text."""

    name: str
    schema: str


class ParsedSchema(Protocol):
    """A valid schema of any type."""

    @property
    def canonical(self) -> str:
        """The text that is stored unless the request or the subject's config sets `normalize`."""

    @property
    def normalized(self) -> str:
        """The text that is stored if the request or the subject's config sets `normalize`. Most schemas that
        differ only in insignificant parts, such as the order of properties, have the same text.
        """

    def cannot_read(self, writer: Any) -> list[str]:
        """Return the reasons why this schema cannot read data of `writer`, a schema of this type; empty if it can."""


class Compatibility(Enum):
    """A compatibility level. Its value has three flags: whether the new schema must read data of earlier ones, whether
    earlier schemas must read data of the new one, and whether all earlier versions are checked or only the latest.
    """

    NONE = (False, False, False)
    BACKWARD = (True, False, False)
    BACKWARD_TRANSITIVE = (True, False, True)
    FORWARD = (False, True, False)
    FORWARD_TRANSITIVE = (False, True, True)
    FULL = (True, True, False)
    FULL_TRANSITIVE = (True, True, True)

    def check(self, new: ParsedSchema, versions: Sequence[ParsedSchema]) -> list[str]:
        """Return the reasons why a new schema is incompatible at this level with one of `versions` (oldest first);
        empty if it is compatible.
        """
        backward, forward, is_transitive = self.value
        for old in reversed(versions if is_transitive else versions[-1:]):
            if type(new) is not type(old) and self is not Compatibility.NONE:
                return ["{errorType:'SCHEMA_TYPE_CHANGED', description:'The type of the schema is different'}"]
            reasons = (new.cannot_read(old) if backward else []) + (old.cannot_read(new) if forward else [])
            if reasons:
                return reasons
        return []

"""Generates the `__init__` of messages and structures from their fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.protocol.fields import Declared, Field


class _New:
    """Placeholder in a signature for a default list or structure that is created per instance."""

    def __repr__(self) -> str:
        return "<new>"


NEW = _New()


def make_init(cls: type[Declared]) -> Callable[..., None]:
    """Return an `__init__` with one keyword per field."""
    names: dict[str, Any] = {"NEW": NEW}
    parameters, body = [], []
    for field in cls.FIELDS:
        fresh = _fresh_default(field, names)
        if fresh:
            parameters.append(f"{field.name}=NEW")
            body.append(f"    self.{field.name} = {fresh} if {field.name} is NEW else {field.name}")
        else:
            names[f"_{field.name}"] = None if field.default == () else field.default
            parameters.append(f"{field.name}=_{field.name}")
            body.append(f"    self.{field.name} = {field.name}")
    star = ", *, " if parameters else ""
    source = f"def __init__(self{star}{', '.join(parameters)}):\n" + "\n".join(body or ["    pass"])
    exec(compile(source, f"<{cls.__name__}>", "exec"), names)
    init: Callable[..., None] = names["__init__"]
    return init


def _fresh_default(field: Field, names: dict[str, Any]) -> str:
    """Return the expression of a default that must not be shared between instances, or "" for a plain value."""
    if field.kind == "array" and field.default is not None:
        return "[]"
    if field.kind == "struct" and field.tag is None and field.nullable == "none":
        names[f"new_{field.name}"] = field.element
        return f"new_{field.name}()"
    return ""

"""Write the public API to tests/unit/public_api.txt: every name that users import, with parameters, members, options.

A test compares the file with the code, so that a change of the API is a change of the file, which a review sees. Types
are left out: `make types` checks that they are known.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import typing
from collections.abc import Iterator
from pathlib import Path

import ottla
from ottla import errors
from scripts.public_types import CLASSES, MODULES

FILE = Path(__file__).parents[1] / "tests" / "unit" / "public_api.txt"
OF_SPARK = ("ottla.spark.OttlaDataSource",)
"""Names that would import Spark, whose interface they have."""
FIXTURES = "ottla.testing.plugin"
COMPILED = "ottla.records."
"""Modules whose classes have no signatures when they are compiled."""
PLAIN = (type(None), bool, int, float, str, bytes, tuple, frozenset)


def public_api() -> list[str]:
    """Return the lines of the file."""
    lines: set[str] = set()
    for name in ottla.__all__:
        lines.update(_described(f"ottla.{name}", getattr(ottla, name)))
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]):
            if f"{module_name}.{name}" in OF_SPARK:
                continue
            value = getattr(module, name)
            if str(getattr(value, "__module__", module_name)).startswith("ottla"):
                lines.update(_described(f"{module_name}.{name}", value))
    for path in CLASSES:
        module_name, _, name = path.rpartition(".")
        lines.update(_described(path, getattr(importlib.import_module(module_name), name)))
    fixtures = vars(importlib.import_module(FIXTURES))
    lines.update(f"fixture {name}" for name in fixtures if name.startswith("ottla_"))
    return sorted(lines)


def _described(path: str, value: object) -> Iterator[str]:
    """Yield the lines of a class with its members, of a function, or of a constant."""
    if typing.is_typeddict(value):
        yield from (f"{path}[{key}]" for key in inspect.get_annotations(value))  # type: ignore[arg-type]
        yield from (f"{path}[{key}]" for key in getattr(value, "__annotations__", {}))
    elif isinstance(value, type) and issubclass(value, enum.Enum):
        yield from (f"{path}.{name} = {member.value!r}" for name, member in value.__members__.items())
    elif isinstance(value, type) and issubclass(value, errors.KafkaError):
        yield f"{path}({value.__base__.__name__}) {value.code if value.code is not None else ''}".rstrip()  # type: ignore[union-attr]
    elif isinstance(value, type):
        yield f"{path}{_parameters(value)}"
        yield from _members(path, value)
    elif callable(value):
        yield f"{path}{_parameters(value)}"
    elif isinstance(value, PLAIN):
        yield f"{path} = {value!r}"


def _members(path: str, cls: type) -> Iterator[str]:
    for base in reversed([base for base in cls.__mro__ if base.__module__.startswith("ottla")]):
        for name in vars(base):
            if name.startswith("_") and name != "__call__":
                continue
            member = inspect.getattr_static(cls, name)
            if isinstance(member, (classmethod, staticmethod)):
                member = member.__func__
            if inspect.isroutine(member):
                kind = "async " if inspect.iscoroutinefunction(member) else ""
                yield f"{kind}{path}.{name}{_parameters(member)}"
            else:
                yield f"{path}.{name}"


def _parameters(value: object) -> str:
    """Return the parameters with their defaults, without types: "(topic, *, timeout=None)"."""
    defines = value.__init__ if isinstance(value, type) else value  # type: ignore[misc]
    if any(str(getattr(item, "__module__", "") or "").startswith(COMPILED) for item in (value, defines)):
        return "(…)"
    try:
        signature = inspect.signature(value)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return "(…)"
    parameters = [_untyped(parameter) for parameter in signature.parameters.values() if parameter.name != "self"]
    return str(inspect.Signature(parameters))


def _untyped(parameter: inspect.Parameter) -> inspect.Parameter:
    default = parameter.default
    is_shown = default is inspect.Parameter.empty or isinstance(default, PLAIN)
    shown = default if is_shown else _Default(default)
    return inspect.Parameter(parameter.name, parameter.kind, default=shown)


class _Default:
    """A default value that is shown by its type, because its repr may contain an address."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        return f"<{type(self._value).__name__}>"


def main() -> None:
    """Write the file."""
    FILE.write_text("\n".join(public_api()) + "\n", encoding="utf-8")
    print(FILE)


if __name__ == "__main__":
    main()

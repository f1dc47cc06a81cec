"""Errors in responses: of single items, or of the whole request."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, cast

from ottla import errors
from ottla.net.server.connection import CloseConnectionError
from ottla.protocol.fields import Field
from ottla.protocol.message import Request, Response, Struct, StructType

ERROR_CODES: Final = ("error_code", "partition_error_code")
ERROR_FIELDS: Final = (*ERROR_CODES, "error_message")


class errors_in:  # noqa: N801 - used as a statement
    """Context manager that catches a KafkaError of its block, and stores it in a result: the code and, if the result
    has a field for it, the message.

    with errors_in(result):
        await alter(resource)
    """

    __slots__ = ("_result",)

    def __init__(self, result: Any) -> None:
        self._result = result

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, errors.KafkaError):
            return False
        self._result.error_code = errors.code_of(error)
        if hasattr(self._result, "error_message"):
            self._result.error_message = error.message
        return True


def error_response(
    name: str, response: type[Response], request: Request[Any], version: int, error: errors.KafkaError
) -> Response:
    """Return a response with the error at its top level or, if there is no field for an error there, in one item for
    each item of the request.

    Items identify those of the request (topic, partition, group). Raises CloseConnectionError if this version of the
    response has no field for an error. Equivalent of `getErrorResponse` in Kafka's requests.
    """
    fields = [field for field in response.FIELDS if field.in_version(version)]
    has_error = any(field.name == "error_code" for field in fields)
    if not has_error and not any(_has_errors(field, version) for field in fields):
        raise CloseConnectionError(f"{name} failed: {error}")
    return cast("Response", _with_error(response, None if has_error else request, version, error))


def _with_error(made: type[Any], source: Any, version: int, error: errors.KafkaError) -> Any:
    """Return a structure of type `made` with the error. The fields that identify the item are copied from `source`, the
    request or its item.

    `source` may also be None, or the name or number of the item, which is then the value of the first field that is
    neither an error nor a structure.
    """
    values: dict[str, Any] = {}
    is_first = True
    for field in made.FIELDS:
        if not field.in_version(version):
            continue
        if field.name in ERROR_FIELDS:
            values[field.name] = error.message if field.name == "error_message" else errors.code_of(error)
        elif isinstance(field.element, StructType):
            if _has_errors(field, version) or hasattr(source, field.name):
                items = _items(source, field, version)
                values[field.name] = [_with_error(field.element, item, version, error) for item in items]
        else:
            values |= _identity(source, field.name, is_first)
            is_first = False
    return made(**values)


def _identity(source: Any, name: str, is_first: bool) -> dict[str, Any]:
    """Return a field of the response's item, by its name, with the value that the request's item has for it; an empty
    dictionary if it has none.

    The value comes from the field of the same name or, for the first field, from the field `name`. An item without
    fields, such as a name or number, is itself the value of the first field.
    """
    if isinstance(source, Struct):
        if hasattr(source, name):
            return {name: getattr(source, name)}
        source = getattr(source, "name", None)  # of topic_name and user
    return {name: source} if is_first and source is not None else {}


def _has_errors(field: Field, version: int) -> bool:
    """Return whether the structures in the field, such as items of an array, or those in them have an error code."""
    fields: tuple[Field, ...] = getattr(field.element, "FIELDS", ())
    return any(f.in_version(version) and (f.name in ERROR_CODES or _has_errors(f, version)) for f in fields)


def _items(source: Any, field: Field, version: int) -> Iterator[Any]:
    """Yield the request's items that an array of the response must contain: those of the request's array with the same
    name or, if there is none, those of all its arrays. An item that only groups others is replaced by them.
    """
    if not isinstance(source, Struct):
        return
    arrays = [f.name for f in source.FIELDS if f.kind == "array" and f.in_version(version)]
    for name in [field.name] if field.name in arrays else arrays:
        for item in getattr(source, name) or ():
            if _is_only_a_group(item, field.element, version):
                yield from _items(item, field, version)
            else:
                yield item


def _is_only_a_group(item: Any, made: type[Struct], version: int) -> bool:
    """Return whether an item of the request has no field in common with the response's item, but has an array of
    structures, which are the actual items. An example are the directories of AlterReplicaLogDirs.
    """
    if not isinstance(item, Struct) or not any(isinstance(f.element, StructType) for f in item.FIELDS):
        return False
    return not any(f.in_version(version) and hasattr(item, f.name) for f in made.FIELDS)

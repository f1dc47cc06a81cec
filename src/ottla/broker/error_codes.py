"""Turns exceptions into error codes of the items of a response."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ottla.errors import KafkaError, code_of


class errors_in:  # noqa: N801 - used as a statement
    """Context manager: store a KafkaError that the block raises in the `error_code` and `error_message` of a result.

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
        if not isinstance(error, KafkaError):
            return False
        self._result.error_code = code_of(error)
        if hasattr(self._result, "error_message"):
            self._result.error_message = error.message
        return True

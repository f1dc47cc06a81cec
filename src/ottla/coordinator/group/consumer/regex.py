"""Regular expressions of subscriptions, in RE2's syntax as in Kafka.

RE2 takes time in proportion to the text whatever the expression is; Python's own engine can be made to run for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from ottla.errors import InvalidRegularExpressionError

CACHED = 256
"""Compiled expressions that are kept."""


def check(expression: str) -> None:
    """Raise InvalidRegularExpressionError for what is no regular expression."""
    _compiled(expression)


def matching(expression: str, names: Iterable[str]) -> frozenset[str]:
    """The names that match as a whole."""
    pattern = _compiled(expression)
    return frozenset(name for name in names if pattern.fullmatch(name))


@lru_cache(CACHED)
def _compiled(expression: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0]
        reason_text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise InvalidRegularExpressionError(
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {reason_text}."
        ) from None

"""Regular expressions of subscriptions, in the syntax of RE2 as in Kafka.

The time of RE2 is proportional to the text for every expression; Python's own engine may take exponential time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from ottla.errors import InvalidRegularExpressionError

CACHED = 256
"""The maximum number of compiled expressions in the cache."""


def check(expression: str) -> None:
    """Raise InvalidRegularExpressionError for an invalid expression."""
    _compiled(expression)


def matching(expression: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that match as a whole."""
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

"""Regular expressions of subscriptions, in the syntax of RE2 as in Kafka.

RE2 takes time proportional to the length of the text, whatever the expression. Python's `re` may take exponential time,
so a client could block the broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from ottla.errors import InvalidRegularExpressionError

CACHED = 256
"""The maximum number of compiled expressions in the cache."""


def check(expression: str) -> None:
    """Raise InvalidRegularExpressionError for an invalid expression, or if google-re2 is not installed."""
    _compiled(expression)


def matching(expression: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that match the expression as a whole. Raises InvalidRegularExpressionError like `check`."""
    pattern = _compiled(expression)
    return frozenset(name for name in names if pattern.fullmatch(name))


@lru_cache(CACHED)
def _compiled(expression: str) -> Any:
    try:
        import re2
    except ImportError:  # there is no wheel of it for free-threaded Python
        raise InvalidRegularExpressionError(
            f"SubscribedTopicRegex `{expression}` cannot be evaluated: the broker's Python lacks google-re2"
            " (pip install google-re2)."
        ) from None
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

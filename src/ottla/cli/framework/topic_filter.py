"""Regular expressions that select topics: lists, like the IncludeList of Kafka's tools, and subscriptions."""

from __future__ import annotations

import re
import warnings

from ottla.errors import ConfigurationError


def topic_filter(option: str, text: str) -> re.Pattern[str]:
    """Compile a list of regular expressions, separated by commas, to one pattern that matches if any of them matches.
    Use `fullmatch`, because it has to match whole topic names.

    All spaces and the surrounding quotes are removed. Raises ConfigurationError, with the name of the option, for an
    invalid expression.
    """
    regex = text.replace(" ", "").strip("\"'").replace(",", "|")
    try:
        with warnings.catch_warnings():
            # Java's nested sets, such as [a-z&&[^x]], have another meaning in Python, which warns.
            warnings.simplefilter("error", FutureWarning)
            return re.compile(regex)
    except (re.error, FutureWarning) as error:
        raise ConfigurationError(f"{option}: {regex} is an invalid regex: {error}") from None


def name_pattern(option: str, text: str) -> re.Pattern[str]:
    """Compile a regular expression for a subscription. It matches whole topic names, as in Java.

    Raises ConfigurationError, with the name of the option, for an invalid expression.
    """
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigurationError(f"{option} {text!r} is not a regular expression: {error}") from None
    return re.compile(rf"^(?:{text})$")

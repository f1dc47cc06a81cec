"""Topics by a regular expression, as the IncludeList of Kafka's tools reads it."""

from __future__ import annotations

import re
import warnings

from ottla.errors import ConfigurationError


def topic_filter(option: str, text: str) -> re.Pattern[str]:
    """What a topic's whole name has to match: one of the expressions between commas.

    Blanks, and quotes that a properties file leaves around it, are dropped. ConfigurationError for no expression.
    """
    regex = text.replace(" ", "").strip("\"'").replace(",", "|")
    try:
        with warnings.catch_warnings():
            # Java's sets within sets, such as [a-z&&[^x]], have another meaning here, of which Python warns.
            warnings.simplefilter("error", FutureWarning)
            return re.compile(regex)
    except (re.error, FutureWarning) as error:
        raise ConfigurationError(f"{option}: {regex} is an invalid regex: {error}") from None

"""Topic filters: regular expressions in which a comma means `|`, and blanks and enclosing quotes are ignored."""

from __future__ import annotations

import re
from typing import ClassVar

from ottla.model import INTERNAL_TOPICS


class TopicFilter:
    """Selects topics by name with a regular expression. Raises ValueError if it is invalid."""

    PATTERN: ClassVar[str]
    """The name of the kind of filter in a member's znode."""
    CHOOSES: ClassVar[bool]
    """Whether matching topics are included (True) or excluded (False)."""

    def __init__(self, raw_regex: str) -> None:
        self.regex: str = raw_regex.strip().replace(",", "|").replace(" ", "").lstrip("\"'").rstrip("\"'")
        try:
            self._compiled = re.compile(self.regex)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"{raw_regex} is an invalid regex: {error}") from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.regex!r})"

    def is_topic_allowed(self, topic: str, exclude_internal_topics: bool) -> bool:
        """Return whether the filter selects the topic. With `exclude_internal_topics`, internal topics are never
        selected.
        """
        if exclude_internal_topics and topic in INTERNAL_TOPICS:
            return False
        return (self._compiled.fullmatch(topic) is not None) is self.CHOOSES


class Whitelist(TopicFilter):
    """Includes the topics that match."""

    PATTERN: ClassVar[str] = "white_list"
    CHOOSES: ClassVar[bool] = True


class Blacklist(TopicFilter):
    """Excludes the topics that match."""

    PATTERN: ClassVar[str] = "black_list"
    CHOOSES: ClassVar[bool] = False


FILTERS: dict[str, type[TopicFilter]] = {cls.PATTERN: cls for cls in (Whitelist, Blacklist)}

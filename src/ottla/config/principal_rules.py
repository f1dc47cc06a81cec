"""`ssl.principal.mapping.rules` (KIP-371): what a client is called by the name in its certificate.

Rules are tried in order: `DEFAULT` takes the name as it is, `RULE:pattern/replacement/[LU]` takes names that match as a
whole and replaces what matches (`$1` is the first group), in lower or upper case where that is asked for.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

_PART: Final = r"(?:\\.|[^\\/])*"
_RULE: Final = rf"\s*(?:(DEFAULT)|RULE:({_PART})/({_PART})/([LU]?)|)\s*(?:,|$)"


class Rule(NamedTuple):
    """One rule; without a pattern it is DEFAULT."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """What the rule makes of a name; None where it is not for it."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        made = self.pattern.sub(lambda match: _filled(self.replacement, match), name)
        return made.lower() if self.case == "L" else made.upper() if self.case == "U" else made


def principal_rules(text: str) -> tuple[Rule, ...]:
    """The rules in their order; ValueError for what is none."""
    rules, at = [], 0
    while at < len(text):
        match = re.compile(_RULE).match(text, at)
        if match is None:
            raise ValueError(f"expected DEFAULT or RULE:pattern/replacement/[LU] with commas, not {text[at:]!r}")
        if match[1]:
            rules.append(Rule())
        elif match[2] is not None:
            try:
                rules.append(Rule(re.compile(match[2]), match[3], match[4]))
            except re.error as error:
                raise ValueError(f"{match[2]!r} is not a pattern: {error}") from None
        at = match.end()
    return tuple(rules)


def checked(value: Any) -> str:
    """The text of the rules, which can be read."""
    principal_rules(str(value))
    return str(value).strip()


def mapped(rules: tuple[Rule, ...], name: str) -> str | None:
    """What a client with this name is called; None where no rule is for it."""
    return next((made for rule in rules if (made := rule.apply(name)) is not None), None)


def _filled(replacement: str, match: re.Match[str]) -> str:
    groups = match.re.groups

    def piece(group: re.Match[str]) -> str:
        if group[1] is not None:
            return group[1]
        digits = group[2]
        while int(digits) > groups and len(digits) > 1:
            digits = digits[:-1]  # as in Java: $12 is the first group and a 2, where there are fewer than twelve
        if int(digits) > groups:
            return group[0]
        return (match[int(digits)] or "") + group[2][len(digits) :]

    return re.sub(r"\\(.)|\$(\d+)", piece, replacement)

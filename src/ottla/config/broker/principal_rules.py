"""`ssl.principal.mapping.rules` (KIP-371): the principal's name, derived from the name in a client's certificate.

Rules are tried in order: `DEFAULT` leaves the name unchanged, `RULE:pattern/replacement/[LU]` replaces names that
match as a whole (`$1` is the first group), with the result in lower (L) or upper case (U).
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
        """Return the name that the rule derives, or None if the rule does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        made = self.pattern.sub(lambda match: _filled(self.replacement, match), name)
        return made.lower() if self.case == "L" else made.upper() if self.case == "U" else made


def principal_rules(text: str) -> tuple[Rule, ...]:
    """Parse the rules, in their order. Raises ValueError for malformed rules."""
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
    """Return the text of the rules after checking that they can be parsed."""
    principal_rules(str(value))
    return str(value).strip()


def mapped(rules: tuple[Rule, ...], name: str) -> str | None:
    """Return the principal's name by the first rule that matches, or None if none does."""
    return next((made for rule in rules if (made := rule.apply(name)) is not None), None)


def _filled(replacement: str, match: re.Match[str]) -> str:
    groups = match.re.groups

    def piece(group: re.Match[str]) -> str:
        if group[1] is not None:
            return group[1]
        digits = group[2]
        while int(digits) > groups and len(digits) > 1:
            digits = digits[:-1]  # as in Java: $12 is the first group and a 2, if there are fewer than twelve
        if int(digits) > groups:
            return group[0]
        return (match[int(digits)] or "") + group[2][len(digits) :]

    return re.sub(r"\\(.)|\$(\d+)", piece, replacement)

"""JAAS configs, in which Java's programs keep their credentials: `LoginModule required name="value" …;`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The supported SASL mechanisms."""
PLAIN_MODULE: Final = "PlainLoginModule"
SCRAM_MODULE: Final = "ScramLoginModule"
OAUTH_MODULE: Final = "OAuthBearerLoginModule"
MODULES: Final = {
    "PLAIN": f'{PLAIN_MODULE} required user_<name>="<password>"',
    "SCRAM-SHA-256": f"{SCRAM_MODULE} required",
    "SCRAM-SHA-512": f"{SCRAM_MODULE} required",
    "OAUTHBEARER": f"{OAUTH_MODULE} required",
}
"""The beginning of a broker's JAAS config for each mechanism, which errors show as an example."""
# Texts, because most programs need no JAAS config, and compiling patterns takes time.
_HEAD: Final = r"(?i)\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b"
_OPTION: Final = r"""(?s)\s*([\w.$@-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([\w.$-]+))"""
_END: Final = r"\s*;?\s*"


class Jaas(NamedTuple):
    """A login module, by the last part of its name, and its options."""

    module: str
    options: Mapping[str, str]


def jaas(value: Any) -> Jaas:
    """Parse a JAAS config. Raises ValueError for a malformed one, without its text, which may contain passwords."""
    line = str(value)
    head = re.match(_HEAD, line)
    if head is None:
        raise ValueError('expected a JAAS line: …LoginModule required username="…" password="…";')
    options, at = {}, head.end()
    while match := re.compile(_OPTION).match(line, at):
        quoted = match[2] if match[2] is not None else match[3]
        options[match[1]] = match[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = match.end()
    if re.compile(_END).fullmatch(line, at) is None:
        raise ValueError(f"expected a JAAS line; malformed from position {at + 1} on")
    return Jaas(head[1].rpartition(".")[2], options)


def login(value: Any) -> Jaas:
    """Parse a client's JAAS config: user and password for PLAIN or SCRAM, or the token options of OAUTHBEARER."""
    modules = jaas(value)
    if modules.module == OAUTH_MODULE:
        return modules
    if modules.module not in (PLAIN_MODULE, SCRAM_MODULE) or not {"username", "password"} <= modules.options.keys():
        raise ValueError('expected …PlainLoginModule (or ScramLoginModule) required username="…" password="…";')
    return modules

"""Java's properties files, as `server.properties` and `--command-config` are written."""

from __future__ import annotations

import re
from pathlib import Path

from ottla.errors import ConfigurationError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY_END = re.compile(r"(?<!\\)(?:\\\\)*[=:\s]")


def load(path: str | Path) -> dict[str, str]:
    """Read a properties file. Raises ConfigurationError if it cannot be read."""
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError(f"{path}: the properties file cannot be read: {reason}") from None


def parse(source: str) -> dict[str, str]:
    """Parse the text of a properties file.

    `=`, `:` or a blank is between key and value, lines that begin with `#` or `!` are comments, and `\\` at the end
    continues a line.
    """
    properties: dict[str, str] = {}
    pending = ""
    for raw in source.splitlines():
        line = pending + raw.lstrip()
        pending = ""
        if not line or line[0] in "#!":
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
            continue
        key, value = _split(line)
        properties[key] = value
    if pending:
        key, value = _split(pending)
        properties[key] = value
    return properties


def override(text: str) -> tuple[str, str]:
    """Parse one `key=value` of a command line. Raises ConfigurationError if there is no key or no `=`."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ConfigurationError(f"{text!r} is not allowed: expected key=value")
    return key.strip(), value.strip()


def _split(line: str) -> tuple[str, str]:
    end = _KEY_END.search(line)
    if end is None:
        return _unescape(line.strip()), ""
    cut = end.end() - 1
    rest = line[cut:].lstrip()
    if rest[:1] in ("=", ":"):
        rest = rest[1:]
    return _unescape(line[:cut]), _unescape(rest.strip())


def _unescape(part: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match.group(1)
        if len(code) == 5:
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, part)

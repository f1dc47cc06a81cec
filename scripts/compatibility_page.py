"""Writes docs/compatibility.md: the clients that were tested with Ottla's broker, from the results of the tests.

    make test ARGS=tests/interop && python -m scripts.compatibility_page

A test that passes records what its client checked (`.cache/compatibility.json`). Earlier results of a client that is
not on this machine remain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.maven import CACHE

NOTES = CACHE / "compatibility.json"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "compatibility.md"
HEAD = """# Compatibility

What each client, unchanged, was seen to do against an Ottla broker. The tests in `tests/interop` and
`tests/spark/connector` write this page: every entry was checked by the client's own program, not by ours. Run them,
then `python -m scripts.compatibility_page` to regenerate it.
"""


def save(noted: Sequence[Sequence[Any]]) -> None:
    """Replace the earlier results of these clients. A result is client, version, subject and what was checked."""
    notes = {(client, version, subject): checked for client, version, subject, checked in read()}
    renewed: dict[tuple[str, str, str], list[str]] = {}
    for client, version, subject, checked in noted:
        renewed.setdefault((client, version, subject), []).extend(checked)
    notes |= renewed
    CACHE.mkdir(exist_ok=True)
    NOTES.write_text(json.dumps([[*key, checked] for key, checked in sorted(notes.items())], indent=1))


def read() -> list[list[Any]]:
    """Return the results."""
    notes: list[list[Any]] = json.loads(NOTES.read_text()) if NOTES.exists() else []
    return notes


def page(current: str) -> str:
    """Return the page with the results; rows of the current page without newer results remain."""
    rows = rows_of(current) | {(client, version, subject): checked for client, version, subject, checked in read()}
    parts = [HEAD]
    for client in sorted({client for client, _, _ in rows}):
        parts.append(f"\n## {client}\n\n| version | subject | checked |\n| --- | --- | --- |")
        own = sorted((_order(key[1]), key[2], key[1], rows[key]) for key in rows if key[0] == client)
        parts += [f"| {version} | {subject} | {'; '.join(_unique(checked))} |" for _, subject, version, checked in own]
        parts[-1] += "\n"
    return "\n".join(parts).replace("\n\n\n", "\n\n").rstrip() + "\n"


def rows_of(text: str) -> dict[tuple[str, str, str], list[str]]:
    """Return the rows of a page: what was checked, by client, version and subject."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    client = ""
    for line in text.splitlines():
        if line.startswith("## "):
            client = line.removeprefix("## ")
        elif client and line.startswith("| ") and not line.startswith(("| version |", "| ---")):
            version, subject, checked = re.split(r" (?<!\\)\| ", line[2:-2], maxsplit=2)
            rows[client, version, subject] = checked.replace("\\|", "|").split("; ")
    return rows


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


def _unique(checked: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(text.replace("|", "\\|") for text in checked))


def main() -> None:
    """Rewrite the page with the results of the last tests."""
    PAGE.write_text(page(PAGE.read_text()))


if __name__ == "__main__":
    main()

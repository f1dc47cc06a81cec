"""docs/compatibility.md: what real clients were seen to do against our broker. Written from what the tests noted.

    make test ARGS=tests/interop && make docs

A test that passes notes what its client checked (`.cache/compatibility.json`); a client that is not on the machine
leaves what was noted of it before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from scripts.maven import CACHE

NOTES = CACHE / "compatibility.json"
HEAD = """# Compatibility

What each client, unchanged, was seen to do against an Ottla broker. The tests in `tests/interop` and
`tests/spark/connector` write this page: every entry was checked by the client's own program, not by ours. Run them,
then `make docs` to regenerate it.
"""


def keep(noted: Sequence[Sequence[Any]]) -> None:
    """Put what was noted (client, version, subject, what was checked) in the place of what was known of it."""
    notes = {(client, version, subject): checked for client, version, subject, checked in read()}
    renewed: dict[tuple[str, str, str], list[str]] = {}
    for client, version, subject, checked in noted:
        renewed.setdefault((client, version, subject), []).extend(checked)
    notes |= renewed
    CACHE.mkdir(exist_ok=True)
    NOTES.write_text(json.dumps([[*key, checked] for key, checked in sorted(notes.items())], indent=1))


def read() -> list[list[Any]]:
    """What was noted so far."""
    notes: list[list[Any]] = json.loads(NOTES.read_text()) if NOTES.exists() else []
    return notes


def page(current: str) -> str:
    """Return the page with the notes; rows of the current page without newer notes stay."""
    rows = rows_of(current) | {(client, version, subject): checked for client, version, subject, checked in read()}
    parts = [HEAD]
    for client in sorted({client for client, _, _ in rows}):
        parts.append(f"\n## {client}\n\n| version | subject | checked |\n| --- | --- | --- |")
        own = sorted((_order(key[1]), key[2], key[1], rows[key]) for key in rows if key[0] == client)
        parts += [f"| {version} | {subject} | {'; '.join(_unique(checked))} |" for _, subject, version, checked in own]
        parts[-1] += "\n"
    return "\n".join(parts).replace("\n\n\n", "\n\n").rstrip() + "\n"


def rows_of(text: str) -> dict[tuple[str, str, str], list[str]]:
    """Return what a page says was checked, by client, version and subject."""
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

"""The public API matches its recorded form, so that it changes only on purpose."""

from __future__ import annotations

import difflib

from scripts.public_api import FILE, public_api


def test_public_api_matches_the_recorded_names_and_parameters() -> None:
    recorded = FILE.read_text(encoding="utf-8").splitlines()
    changes = list(difflib.unified_diff(recorded, public_api(), "public_api.txt", "the code", n=0, lineterm=""))
    assert not changes, "\n".join([*changes, "If this is intended: python -m scripts.public_api, and CHANGELOG.md"])
    assert len(recorded) > 2000

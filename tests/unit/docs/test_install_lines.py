"""Install commands work while Ottla is not on PyPI.

Commands in pages work in a clone, those in error messages on machines where Ottla is installed.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()

INSTALL = re.compile(r"pip install ([^`\n#]*)")
OF_EXTRAS = re.compile(r"(?:ottla|[\"']\.)\[([a-z,]+)\]")
# `ottla` or `ottla[…]`, which pip would look up on PyPI.
BY_NAME = re.compile(r"(?:^|[\s\"'])ottla\b")
# An error message that a page quotes, and the explanation of such messages in installation.md.
WHERE_INSTALLED = (
    "needs the package pyarrow: pip install 'ottla[spark]'",
    "Where Ottla is installed, `pip install 'ottla[spark]'`",
)
WITHOUT_QUOTES = re.compile(r"(?:^|\s)[\w.]+\[")


def problems(text: str, *, installed: bool) -> list[str]:
    """Return the install lines of a text that fail, with the reason. `installed`: for machines with Ottla."""
    for line in WHERE_INSTALLED:
        text = text.replace(line, "")
    failing = []
    for line in INSTALL.findall(text):
        if WITHOUT_QUOTES.search(line):
            failing.append(f"zsh expands the brackets: {line}")
        if BY_NAME.search(line) and not installed and not re.search("--find-links| @ git", line):
            failing.append(f"Ottla is not on PyPI: {line}")
    unknown = {extra for extras in OF_EXTRAS.findall(text) for extra in extras.split(",")} - EXTRAS
    return failing + [f"there is no extra {extra}" for extra in sorted(unknown)]


def failing_lines(paths: list[Path], *, installed: bool) -> dict[str, list[str]]:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    return {name: lines for name, text in texts.items() if (lines := problems(text, installed=installed))}


def test_install_lines_of_pages_work_in_a_clone() -> None:
    assert failing_lines(PAGES, installed=False) == {}


def test_install_lines_of_error_messages_name_extras_that_exist() -> None:
    assert failing_lines(SOURCES, installed=True) == {}


def test_failing_install_lines_are_detected() -> None:
    assert problems("pip install '.[spark]'\n`pip install .`\n", installed=False) == []
    assert problems("pip install --find-links dist 'ottla[sql]'", installed=False) == []
    assert problems("run `pip install 'ottla[spark]'`", installed=True) == []
    assert problems("pip install ottla\npip install 'ottla[sql]' x\npip install .[a]", installed=False) == [
        "Ottla is not on PyPI: ottla",
        "Ottla is not on PyPI: 'ottla[sql]' x",
        "zsh expands the brackets: .[a]",
    ]
    assert problems("pip install 'ottla[spark,sparc]'", installed=True) == ["there is no extra sparc"]

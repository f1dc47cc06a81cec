"""The number of uses of words that the glossary bans must not grow."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
GLOSSARY = ROOT / "docs" / "glossary.md"
EXCEPTIONS = Path(__file__).with_name("glossary_exceptions.txt")
ARTICLES = ("a_", "an_", "the_", "what_")
NO_SUBJECT = frozenset({"who", "whom", "whatever", "says", "said", "asks", "ours", "theirs", "us"})
"""Words that names of tests do not have: `test_<subject>_<condition>_<outcome>` in Kafka's terms."""
EXEMPT = {"docs/glossary.md", "tests/unit/docs/test_glossary.py"}


@cache
def banned() -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the banned words and phrases, and the banned names of variables."""
    table = GLOSSARY.read_text().partition("## Words we do not use")[2]
    words: list[str] = []
    names: set[str] = set()
    for row in re.findall(r"^\| (?!not this|---)(.+?) \| .+ \|$", table, re.MULTILINE):
        quoted = re.findall(r"`(\w+)`", row)
        names.update(quoted)
        if not quoted:
            words += row.split(", ")
    return tuple(words), frozenset(names)


def files() -> Iterator[Path]:
    """Yield the tracked files that people read: source, pages and templates."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        if name.endswith((".py", ".md", ".pxd", ".jinja", "Makefile")) and name not in EXEMPT:
            path = ROOT / name
            if path.exists():
                yield path


def occurrences(text: str, *, is_python: bool) -> Counter[str]:
    """Count each banned word in a text; names are split into their words."""
    words, names = banned()
    spread = re.sub(r"(?<=[a-z])(?=[A-Z])|_|\s+", " ", text).lower()
    single = Counter(re.findall(r"[a-z]+", spread))
    phrases = {word: len(re.findall(rf"\b{word}\b", spread)) for word in words if " " in word and word in spread}
    counts = Counter({word: single[word] for word in words if " " not in word} | phrases)
    if is_python and not names.isdisjoint(re.findall(r"\w+", text)):
        counts.update(f"name {name}" for name in _bound_names(ast.parse(text)) if name in names)
    return +counts


def _bound_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def totals() -> Counter[str]:
    """Count the banned words of the whole repository."""
    counts: Counter[str] = Counter()
    for path in files():
        counts += occurrences(path.read_text(), is_python=path.suffix == ".py")
    return counts


def exceptions() -> Counter[str]:
    lines = EXCEPTIONS.read_text().splitlines()
    return Counter({word: int(count) for word, _, count in (line.rpartition(" ") for line in lines)})


def test_banned_words_do_not_increase() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    counts, allowed = totals(), exceptions()
    more = {word: (count, allowed[word]) for word, count in counts.items() if count > allowed[word]}
    assert not more, f"words of docs/glossary.md that may not be added, (now, allowed): {more}"


def test_banned_words_are_detected_in_prose_names_and_variables() -> None:
    counts = occurrences('def was_told(wanted):\n    """Access\n    rules made anew."""\n', is_python=True)
    assert counts == {"told": 1, "anew": 1, "access rules": 1, "name wanted": 1}
    assert occurrences("an access rule, whoever heard", is_python=False) == {"access rule": 1, "whoever": 1, "heard": 1}


def test_names_of_tests_have_a_subject() -> None:
    pattern = re.compile(r"^ *(?:async )?def test_(\w+)", re.MULTILINE)
    names = [name for path in files() if path.name.startswith("test_") for name in pattern.findall(path.read_text())]
    assert len(names) > 1000
    assert [name for name in names if not NO_SUBJECT.isdisjoint(name.split("_")) or name.startswith(ARTICLES)] == []


if __name__ == "__main__":
    EXCEPTIONS.write_text("".join(f"{word} {count}\n" for word, count in sorted(totals().items())))

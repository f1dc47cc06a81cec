"""Docstrings name the thing that they describe: no free relative clauses, and imperative sentences for functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tests.unit.source_trees import statements

ROOT = Path(__file__).resolve().parents[3]
RELATIVES = frozenset({"how", "that", "what", "when", "where", "which", "who", "whom", "whose", "why"})
"""Words that begin a riddle such as "What the client is to send"."""
DETERMINERS = frozenset({"a", "all", "an", "any", "each", "every", "the", "whether"})
"""Words that begin a noun phrase or a clause; a function's docstring begins with a verb."""


def texts(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.Constant]]:
    """Yield each docstring of a module with what it describes: module, class, function, or an assignment."""
    for node in statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for described, statement in pairwise([node, *node.body]):
                match statement:
                    case ast.Expr(ast.Constant(str()) as text) if isinstance(described, ast.Assign | ast.AnnAssign) or (
                        described is node
                    ):
                        yield described, text


def problems(source: str) -> list[tuple[int, str]]:
    """Return line and first words of the docstrings that break a rule."""
    wrong = []
    for described, text in texts(ast.parse(source)):
        words = str(text.value).split()
        first = words[0].strip(",.:;").lower() if words else ""
        if first in RELATIVES or (first in DETERMINERS and _is_called(described)):
            wrong.append((text.lineno, " ".join(words[:8])))
    return sorted(wrong)


def _is_called(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def test_docstrings_in_src_name_the_thing_they_describe() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for line, text in problems(path.read_text())
    ]
    assert not wrong, "name the thing, or say what the function does (style: PEP 257):\n" + "\n".join(wrong)


def test_relative_clauses_are_detected_in_every_kind_of_docstring() -> None:
    source = (
        '"""What it is."""\nclass C:\n    """Who."""\n    x = 1\n    """How many."""\n'
        'def f():\n    """Where: here."""\n'
    )
    assert [line for line, _ in problems(source)] == [1, 3, 5, 7]


def test_noun_phrases_are_allowed_except_for_functions() -> None:
    source = (
        '"""The module."""\nclass C:\n    """A class."""\n    def f(self):\n        """The size."""\n'
        '    @property\n    def g(self):\n        """Whether it is open."""\n'
    )
    assert problems(source) == [(5, "The size.")]

"""Draw docstrings, log lines, help texts and config descriptions at random, to be graded by a reader.

python -m scripts.prose_sample SEED
"""

from __future__ import annotations

import ast
import itertools
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SIZES: Final = {"docstring": 30, "attribute docstring": 10, "log line": 10, "help text": 10, "config description": 10}
LOG_METHODS: Final = {"debug", "info", "warning", "error", "critical", "exception"}
OPTIONS: Final = {"Option", "Flag", "Repeatable"}
SOURCE: Final = Path(__file__).parents[1] / "src"


def texts(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield kind, line and text of everything that people read in a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if docstring := ast.get_docstring(node):
                yield "docstring", getattr(node, "lineno", 1), docstring
            yield from _of_attributes(node.body)
        elif isinstance(node, ast.Call):
            yield from _of_call(node, path)


def _of_attributes(body: list[ast.stmt]) -> Iterator[tuple[str, int, str]]:
    for attribute, statement in itertools.pairwise(body):
        match attribute, statement:
            case ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str(text))):
                yield "attribute docstring", attribute.lineno, f"{ast.unparse(attribute)}\n{text}"


def _of_call(call: ast.Call, path: Path) -> Iterator[tuple[str, int, str]]:
    strings = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    function = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    if isinstance(function, ast.Attribute) and function.attr in LOG_METHODS and call.args:
        if strings or isinstance(call.args[0], ast.JoinedStr):
            yield "log line", call.lineno, ", ".join(map(ast.unparse, call.args))
    elif isinstance(function, ast.Name) and function.id in OPTIONS and strings:
        if "config" in path.parts:
            yield "config description", call.lineno, strings[-1]
        elif len(strings) > 1:
            yield "help text", call.lineno, f"{strings[0]}: {strings[1]}"


def main() -> int:
    """Print the sample of a seed."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 1
    drawn_from: dict[str, list[str]] = {kind: [] for kind in SIZES}
    for path in sorted(SOURCE.rglob("*.py")):
        for kind, line, text in texts(path):
            drawn_from[kind].append(f"{path.relative_to(SOURCE)}:{line}\n    " + text.replace("\n", "\n    "))
    draw = random.Random(sys.argv[1])
    for kind, size in SIZES.items():
        print(f"== {size} of {len(drawn_from[kind])}: {kind}")
        print("\n".join(draw.sample(drawn_from[kind], size)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The tests of each client option, marked with `@pytest.mark.option("linger.ms", …)`.

    assert not set(ProducerConfig.options) - set(marked("test_producer*.py"))

A module's `pytestmark` counts as well. The files are read, not run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent


def marked(*patterns: str) -> dict[str, list[str]]:
    """Return the tests of each option, by file and name, in the files of this folder that match one of `patterns`."""
    result: dict[str, list[str]] = {}
    for path in sorted({path for pattern in patterns for path in HERE.glob(pattern)}):
        for test, option in _marks(ast.parse(path.read_text())):
            result.setdefault(option, []).append(f"{path.name}::{test}")
    return result


def missing_mark(*options: str) -> str:
    """Return what to do about options without a test."""
    names = ", ".join(f'"{option}"' for option in sorted(options))
    mark = f"@pytest.mark.option({names})"
    return (
        f"mark the test of the effect with {mark}, in a file that `marked` in tests/unit/client/marked_options.py reads"
    )


def _marks(module: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            for decorator in node.decorator_list:
                yield from ((node.name, option) for option in _options(decorator))
        elif isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets
        ):
            values = node.value.elts if isinstance(node.value, ast.List) else [node.value]
            yield from (("", option) for value in values for option in _options(value))


def _options(node: ast.expr) -> list[str]:
    if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.option"):
        return []
    return [str(argument.value) for argument in node.args if isinstance(argument, ast.Constant)]

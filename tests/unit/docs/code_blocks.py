"""Extract and run the code blocks of a page."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parents[3] / "docs"


class CodeBlock(NamedTuple):
    language: str
    line: int
    source: str


def code_blocks(page: Path) -> list[CodeBlock]:
    """Return the fenced blocks of a page, with the lines at which their code begins."""
    text = page.read_text()
    fences = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [CodeBlock(f[1], text.count("\n", 0, f.start(2)) + 1, f[2]) for f in fences]


def run_blocks(page: Path, namespace: dict[str, object]) -> None:
    """Run the Python blocks of a page in one namespace, with the lines of the page in tracebacks.

    A block whose first line names another file is skipped.
    """
    for block in code_blocks(page):
        if block.language == "python" and not re.match(r"# \w+\.py\n", block.source):
            source = "\n" * (block.line - 1) + block.source
            exec(compile(source, page, "exec"), namespace)


def outputs(page: Path, language: str) -> list[tuple[str, str]]:
    """Return each block in this language with the `text` block that directly follows it: the output on the page."""
    blocks = code_blocks(page)
    return [
        (code.source, output.source)
        for code, output in pairwise(blocks)
        if (code.language, output.language) == (language, "text")
        and output.line == code.line + code.source.count("\n") + len(("```", "", "```text"))
    ]

"""Runs the code of a page of docs/how-to: its Python in this process, its commands in bash.

Comments in a page, which readers do not see, prepare data (`<!-- setup`) and check results (`<!-- check`). A `text`
block after commands is their expected output, without spaces at the ends of lines.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, FunctionType

from tests.unit.docs.code_blocks import DOCS

PAGES = DOCS / "how-to"
ADDRESS = "localhost:9092"
BLOCK = re.compile(r"^(?:```(\w+)\n(.*?)^```$|<!-- (setup|check)\n(.*?)^-->$)", re.DOTALL | re.MULTILINE)


def run_page(name: str, bootstrap_servers: str, directory: Path, replace: Mapping[str, str] | None = None) -> None:
    """Run the blocks of a page from top to bottom, with the address of the broker and other texts replaced."""
    page = PAGES / f"{name}.md"
    text = page.read_text()
    namespace: dict[str, object] = {}
    printed = ""
    for match in BLOCK.finditer(text):
        language, source = (match[1], match[2]) if match[1] else (match[3], match[4])
        code = source
        for text_of_page, actual in {ADDRESS: bootstrap_servers, **(replace or {})}.items():
            code = code.replace(text_of_page, actual)
        if language in ("python", "setup", "check"):
            line = text.count("\n", 0, match.start(2) if match[1] else match.start(4))
            run_python(compile("\n" * line + code, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), namespace)
        elif language == "sh":
            printed = run_commands(code, directory)
        elif language == "text":
            assert [line.rstrip() for line in printed.splitlines()] == source.splitlines()


def run_python(code: CodeType, namespace: dict[str, object]) -> None:
    """Run a block. If it has `await` outside of a function, run it on its own event loop, as notebooks do."""
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(FunctionType(code, namespace)())
    else:
        exec(code, namespace)


def run_commands(source: str, directory: Path) -> str:
    """Run commands as in a terminal with Ottla on its PATH, and return their output."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", source],
        cwd=directory,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{source}\n{done.stdout}{done.stderr}"
    return done.stdout

"""The commands of docs/tables.md from nothing to SQL over a live topic, with a broker as a process.

With OTTLA_SCREENSHOTS=DIR, the picture of the page is taken: a terminal with the commands and what they print.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.how_to.pages import ADDRESS, run_commands
from tests.unit.docs.code_blocks import DOCS, code_blocks

READY = re.compile(r"ready: PLAINTEXT://(\S+), http://(\S+), data in (\S+), .*")
PAGE = """<style>body {{ margin: 0 }}
pre {{ margin: 0; padding: 18px 22px; width: 1056px; font: 14px/1.5 "DejaVu Sans Mono", monospace;
white-space: pre-wrap; overflow-wrap: anywhere; background: #16181d; color: #d5d9e0 }}
b {{ color: #ffffff; font-weight: normal }} i {{ color: #7fd18b; font-style: normal }}</style><pre>{}</pre>"""


def test_commands_of_the_page_lead_to_sql_over_a_live_topic(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("pyiceberg")
    (block,) = [block for block in code_blocks(DOCS / "tables.md") if "ottla broker &" in block.source]
    install, broker, *commands = block.source.replace("\\\n  ", "").splitlines()
    assert (install, broker) == ("pip install '.[tables]'      # in a clone", "ottla broker &")
    with broker_process(tmp_path) as (address, ready):
        printed = [ready, *(run_commands(command.replace(ADDRESS, address), tmp_path) for command in commands)]
    assert [line.split() for line in printed[-1].splitlines()] == [
        ["city", "orders", "total"],
        ["Brno", "1", "10.5"],
        ["Graz", "2", "7.0"],
        ["Oslo", "1", "7.25"],
    ]
    if directory := os.environ.get("OTTLA_SCREENSHOTS"):
        take_picture(Path(directory) / "tables-terminal.png", [broker, *commands], printed)


@contextmanager
def broker_process(directory: Path) -> Iterator[tuple[str, str]]:
    """Run `ottla broker` on a free port, and yield its address and the line that it prints."""
    overrides = ("listeners=PLAINTEXT://127.0.0.1:0", "ottla.http.listener=127.0.0.1:0")
    options = [argument for override in overrides for argument in ("--override", override)]
    command = [sys.executable, "-m", "ottla", "broker", "--log-level", "error", *options]
    with subprocess.Popen(command, cwd=directory, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            match = READY.search(line)
            assert match is not None, line
            with_defaults = f"ready: PLAINTEXT://{ADDRESS}, http://localhost:9644, data in {Path(match[3]).name}"
            yield match[1], READY.sub(with_defaults, line)
        finally:
            process.terminate()


def take_picture(path: Path, commands: list[str], printed: list[str]) -> None:
    """Take a picture of a terminal in which these commands were run."""
    from playwright.sync_api import sync_playwright

    parts = [
        f"<i>$</i> <b>{html.escape(command)}</b>\n{html.escape(text)}"
        for command, text in zip(commands, printed, strict=True)
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": 1100, "height": 300})
        page.set_content(PAGE.format("".join(parts)))
        page.locator("pre").screenshot(path=path)
        browser.close()

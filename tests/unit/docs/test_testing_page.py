"""The code blocks of docs/testing.md are tests, which are collected here."""

from __future__ import annotations

import re

import pytest
from tests.unit.docs.code_blocks import DOCS, code_blocks, run_blocks

pytest_plugins = ["pytester"]

PAGE = DOCS / "testing.md"
run_blocks(PAGE, globals())


def test_names_of_tests_in_the_page_are_unique() -> None:
    names = re.findall(r"def (test_\w+)", PAGE.read_text())
    assert len(names) == len(set(names)) > 10
    assert set(names) <= globals().keys()


@pytest.mark.parametrize("language", ["ini", "python"])
def test_options_of_the_page_are_those_of_the_broker(pytester: pytest.Pytester, language: str) -> None:
    (block,) = (
        block.source
        for block in code_blocks(PAGE)
        if block.language == language and (language == "ini" or block.source.startswith("# conftest.py"))
    )
    pytester.path.joinpath("pytest.ini" if language == "ini" else "conftest.py").write_text(block)
    pytester.makepyfile(
        "def test(ottla_broker_options, ottla_broker):\n"
        "    assert int(ottla_broker_options['message.max.bytes']) == 2_000_000"
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio").assert_outcomes(passed=1)

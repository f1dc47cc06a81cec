"""The code blocks of docs/testing.md are tests that are collected in this module."""

from __future__ import annotations

import inspect
import re

import pytest
from tests.unit.docs.code_blocks import DOCS, code_blocks, run_blocks

from ottla import Broker
from ottla.testing import plugin
from ottla.testing.faults import Fault, Faults

pytest_plugins = ["pytester"]

PAGE = DOCS / "testing.md"
run_blocks(PAGE, globals())


def test_names_of_tests_in_the_page_are_unique() -> None:
    names = re.findall(r"def (test_\w+)", PAGE.read_text())
    assert len(names) == len(set(names)) > 10
    assert set(names) <= globals().keys()


@pytest.mark.parametrize("language", ["ini", "python"])
def test_broker_options_in_the_page_apply_to_the_broker(pytester: pytest.Pytester, language: str) -> None:
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
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:slipcover", "-p", "no:asyncio").assert_outcomes(
        passed=1
    )


def first_cells(heading: str) -> str:
    """Return the first cells of the table whose first column has this heading."""
    table = PAGE.read_text().partition(f"| {heading} |")[2].partition("\n\n")[0]
    return " ".join(line.split(" | ")[0] for line in table.splitlines()[2:])


def names(cells: str) -> set[str]:
    return set(re.findall(r"`(\w+)", cells))


def test_tables_list_the_public_fixtures_methods_and_arguments() -> None:
    fixtures = {name for name in vars(plugin) if name.startswith("ottla_") and "aio" not in name}
    assert {name for name in names(first_cells("fixture")) if "aio" not in name} == fixtures
    public = {name for name in vars(Fault) if not name.startswith("_")}
    assert names(first_cells("method | what happens to the request")) == public - {
        "apply",
        "takes",
        "wait",
        "release",
        "remove",
    }
    parameters = inspect.signature(Faults.on).parameters.keys() - {"self", "apis"}
    assert names(first_cells("argument of `on`")) >= parameters
    assert names(first_cells("method | effect")) <= {name for name in dir(Broker) if not name.startswith("_")}

"""The example project that uses the pytest plugin."""

from __future__ import annotations

import shutil

import pytest
from tests.unit.examples.running import EXAMPLES

pytest_plugins = ["pytester"]


def test_example_project_passes_with_the_plugin_alone(pytester: pytest.Pytester) -> None:
    shutil.copytree(
        EXAMPLES / "testing", pytester.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    options = (
        "-p",
        "no:cacheprovider",
        "-p",
        "no:slipcover",
        "--strict-markers",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
    )
    pytester.runpytest_inprocess(*options).assert_outcomes(passed=5)

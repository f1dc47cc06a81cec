"""The compiled paths stay within their budgets of instructions per record."""

from __future__ import annotations

import pytest
from tests.instructions import counts
from tests.instructions.paths import PATHS


@pytest.fixture(scope="module")
def measured() -> dict[str, int]:
    reason = counts.missing()
    if reason is None and counts.toolchain() not in counts.budgets():
        reason = f"no budgets for {counts.toolchain()}: run python -m tests.instructions.counts --write"
    if reason is not None:
        pytest.skip(reason)
    return counts.measure()


@pytest.mark.parametrize("path", PATHS)
def test_instructions_per_record_stay_within_the_budget(measured: dict[str, int], path: str) -> None:
    budget = counts.budgets()[counts.toolchain()][path]
    count = measured[path]
    assert count <= budget * counts.TOLERANCE, f"{path}: {count} instructions per record, {budget} before"


def test_every_path_has_a_budget() -> None:
    for toolchain, budget in counts.budgets().items():
        assert set(budget) == set(PATHS), toolchain

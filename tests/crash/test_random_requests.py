"""A short run of `python -m fuzz.requests`: clients with and without ACLs, and clients that disconnect."""

from __future__ import annotations

import asyncio
import random

import pytest
from fuzz.requests import run

pytestmark = pytest.mark.slow

COUNT, CONNECTIONS = 2000, 50
MEGABYTE = 1024 * 1024
MAX_GROWTH_BYTES = 40 * MEGABYTE


@pytest.mark.parametrize("authorizer", [True, False], ids=["with an authorizer", "without"])
def test_random_requests_log_no_exception_and_leak_nothing(authorizer: bool) -> None:
    seed = random.randrange(10**9)
    again = f"again with: python -m fuzz.requests --seed {seed} --count {COUNT} --connections {CONNECTIONS}"
    errors, before, after, outcomes = asyncio.run(run(COUNT, CONNECTIONS, seed, authorizer=authorizer))
    assert not errors, again
    assert outcomes["answered"], again
    assert after.connections == 0
    assert after.tasks <= before.tasks + 10, again
    assert after.memory - before.memory < MAX_GROWTH_BYTES, again

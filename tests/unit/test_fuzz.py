"""A short round of `make fuzz`: every decoder refuses damage with an error of ours, or takes it, and nothing else."""

import random

import pytest
from fuzz.decoders import TARGETS, Target

CASES = 150


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_damaged_bytes_are_refused_or_taken(target: Target) -> None:
    first = random.randrange(10**9)
    for seed in range(first, first + CASES):
        try:
            target(random.Random(seed))
        except Exception as error:
            raise AssertionError(f"again with: make fuzz ARGS='--seed {seed}'") from error

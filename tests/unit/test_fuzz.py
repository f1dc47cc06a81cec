"""A short round of `make fuzz`: every decoder accepts damaged bytes or raises one of Ottla's errors."""

import logging
import random

import pytest
from fuzz import inputs
from fuzz.coverage import corpus_of
from fuzz.decoders import TARGETS, Target

CASES = 150


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_damaged_bytes_are_rejected_or_accepted(target: Target) -> None:
    first = random.randrange(10**9)
    for seed in range(first, first + CASES):
        try:
            target(random.Random(seed))
        except Exception as error:
            raise AssertionError(f"reproduce with: make fuzz ARGS='--seed {seed}'") from error


@pytest.mark.parametrize("name", inputs.TARGETS)
def test_corpus_input_is_rejected_or_accepted(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    corpus = corpus_of(name)
    assert corpus, "make fuzz-coverage ARGS=--save"
    for data in corpus:
        inputs.TARGETS[name](data)

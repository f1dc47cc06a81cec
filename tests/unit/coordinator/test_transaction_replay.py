"""Replay of the transaction log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.coordinator.transaction.transaction_runtime import TransactionRuntime
from ottla.records.batch import read_header
from ottla.records.builder import BatchBuilder
from ottla.storage.producer_state import COMMIT, marker_record


@pytest.mark.parametrize(("control", "replayed"), [(True, 0), (False, 1)])
def test_control_batches_are_not_replayed_as_transactions(control: bool, replayed: int) -> None:
    """A marker's key begins like that of a transaction's record, with a version."""
    builder = BatchBuilder(bytearray(1000))
    builder.append(1, *marker_record(COMMIT, 0))
    batch = builder.close(7, 0, transactional=True, control=control)
    batches: list[memoryview] = []

    def replay_batch(index: int, data: memoryview, replay: Any) -> int:
        batches.append(data)
        return 1

    runtime = SimpleNamespace(_log=SimpleNamespace(replay_batch=replay_batch), replay=None)
    assert TransactionRuntime.replay_batch(cast(TransactionRuntime, runtime), 0, read_header(batch), batch) == 1
    assert len(batches) == replayed

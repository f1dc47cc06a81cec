"""Selection of checkpoints to write and of offsets to commit at the target."""

from __future__ import annotations

import pytest

from ottla.mirror.checkpoints import Checkpoints, offsets_to_commit
from ottla.mirror.records import Checkpoint
from ottla.model import OffsetAndMetadata, TopicPartition

TP = TopicPartition("A.visits", 0)


@pytest.mark.parametrize(
    ("upstream", "downstream", "is_news"),
    [(100, 50, False), (101, 50, False), (110, 40, False), (101, 51, True), (90, 40, True)],
)
def test_checkpoint_moves_back_only_if_the_group_moves_back(upstream: int, downstream: int, is_news: bool) -> None:
    checkpoints = Checkpoints()
    assert checkpoints.is_news(Checkpoint("g", TP, 100, 50, ""))
    checkpoints.add(Checkpoint("g", TP, 100, 50, ""))
    assert checkpoints.is_news(Checkpoint("g", TP, upstream, downstream, "")) is is_news
    assert checkpoints.is_news(Checkpoint("other", TP, upstream, downstream, ""))


@pytest.mark.parametrize(("committed", "commits"), [(None, True), (49, True), (50, False), (60, False)])
def test_offset_is_committed_only_forwards(committed: int | None, commits: bool) -> None:
    at_target = {} if committed is None else {TP: OffsetAndMetadata(committed)}
    offsets = offsets_to_commit({TP: Checkpoint("g", TP, 100, 50, "m")}, at_target)
    assert offsets == ({TP: OffsetAndMetadata(50, "m")} if commits else {})

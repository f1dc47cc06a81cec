"""The end of the demo's job: all partitions are committed up to their end offsets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("pyspark")

from ottla.model import TopicPartition
from ottla_pipelines.refine.job import is_done
from ottla_pipelines.refine.store import Read, Results, Store
from ottla_pipelines.run import Run

P0, P1, EMPTY = (TopicPartition("flights", n) for n in range(3))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.fixture
def store(run: Run) -> Iterator[Store]:
    with Store.open(run.database_url) as opened:
        opened.create()
        yield opened


def test_job_is_not_done_before_the_replay(run: Run, store: Store) -> None:
    store.commit(0, "q", Results({P0: Read(5, 5)}, 5))
    assert not is_done(run, store)


def test_job_is_done_when_every_partition_is_committed_to_its_end(run: Run, store: Store) -> None:
    run.save_end_offsets({P0: 5, P1: 3, EMPTY: 0})
    store.commit(0, "q", Results({P0: Read(5, 5)}, 5))
    assert not is_done(run, store)
    store.commit(1, "q", Results({P1: Read(2, 2)}, 2))
    assert not is_done(run, store)
    store.commit(2, "q", Results({P1: Read(3, 1)}, 1))
    assert is_done(run, store)

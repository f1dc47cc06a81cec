"""All promises hold under all kinds of faults. The package's docstring describes seeds, peers and longer runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka", reason="the load is librdkafka's")
pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from tests.chaos.peers import PEERS, Peer
from tests.chaos.run import Plan, in_own_directory

RUNS = int(os.environ.get("OTTLA_CHAOS_RUNS", "1"))
SECONDS = float(os.environ.get("OTTLA_CHAOS_SECONDS", "20"))
FIRST_SEED = int(os.environ.get("OTTLA_CHAOS_SEED", "1"))
KINDS = [kind for kind in os.environ.get("OTTLA_CHAOS_KINDS", "").split(",") if kind]
RUN_PEERS = [PEERS[name] for name in os.environ.get("OTTLA_CHAOS_PEER", "ottla,embedded").split(",")]
RESULTS = os.environ.get("OTTLA_CHAOS_RESULTS")


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RUNS))
@pytest.mark.parametrize("peer", RUN_PEERS, ids=lambda peer: peer.name)
def test_promises_hold_under_faults(peer: Peer, seed: int) -> None:
    reason = peer.missing()
    if reason is not None:
        pytest.skip(reason)
    in_own_directory(Plan(peer, seed, SECONDS, KINDS, Path(RESULTS) if RESULTS else None))

"""Faults of the simulation: cut links, plans, busy spans and their text form."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import cast

import pytest

from ottla.simulation import faults
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.stores.zookeeper import HOST


@pytest.fixture
def cluster() -> SimulatedCluster:
    brokers = [SimpleNamespace(host=f"10.0.0.{number}") for number in range(3)]
    return cast(SimulatedCluster, SimpleNamespace(brokers=brokers, chosen={}))


@pytest.mark.parametrize("kind", ["cut-from-cluster", "cut-then-power-loss"])
def test_broker_cut_from_the_cluster_keeps_only_client_connections(cluster: SimulatedCluster, kind: str) -> None:
    fault = faults.Fault(at=0, seconds=1, kind=kind, broker=0)
    others = ("10.0.0.1", "10.0.0.2", HOST)
    expected = {("10.0.0.0", host) for host in others} | {(host, "10.0.0.0") for host in others}
    assert set(faults._links(cluster, fault)) == expected


def test_faults_with_data_loss_are_known_kinds() -> None:
    assert set(faults.LOSING) <= set(faults.KINDS)


def test_busy_spans_cover_all_faults_with_rests_in_between() -> None:
    plan = faults.plan(random.Random(3), 600, 3)
    spans = faults.busy_spans(plan)
    for fault in plan:
        assert any(span.begin < fault.at and fault.at + fault.seconds < span.end for span in spans)
    rests = [after.begin - before.end for before, after in itertools.pairwise(spans)]
    assert all(rest > 0 for rest in rests)
    assert max(rests) > faults.MIN_REST_SECONDS - faults.BEFORE_SECONDS


def test_fault_text_is_parsed_to_the_same_fault() -> None:
    for fault in faults.plan(random.Random(5), 300, 3):
        assert faults.Fault.parse(fault.text) == fault


@pytest.mark.parametrize("text", ["", "kill", "kill@1+2", "fire@1+2:0,1", "kill@x+2:0,1"])
def test_malformed_fault_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a fault|could not convert"):
        faults.Fault.parse(text)

"""Tiered topics in a cluster: followers, leader changes, and failures during a copy."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.remote_log.tiered_topic import SECONDS, TieredTopic, configs, wait_until

from ottla import KafkaProducer
from ottla.broker.embedded import Broker
from ottla.remote_log.remote_storage import ObjectStorage, RemoteStorageError


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings: dict[str, Any] = {
        **configs(),
        "replica.fetch.wait.max.ms": 50,
        "replica.fetch.backoff.ms": 50,
    }
    with Broker(settings, brokers=3, data_dir=tmp_path_factory.mktemp("cluster")) as broker:
        yield broker


def test_follower_that_was_down_starts_at_the_local_log_start_offset_of_the_leader(cluster: Broker) -> None:
    topic = TieredTopic(cluster, "away", replicas=2)
    leader = cluster.leader("away")
    follower = next(i for i in topic.partition(leader).image.replicas if i != leader)
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id="away", linger_ms=0, batch_size=1
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("away", b"%06d" % 0 + b"x" * 194).get(SECONDS)
        producer.commit_transaction()
    cluster.stop_broker(follower)
    topic.produce(60, 2)
    topic.wait_local_start(52, leader)
    cluster.start_broker(follower)
    wait_until(lambda: follower in topic.partition(leader).image.isr)
    replica, led = topic.partition(follower).log, topic.partition(leader).log
    assert replica.segments[0].base_offset >= 52
    assert replica.log_start_offset == 0
    assert replica.leader_epochs.entries == led.leader_epochs.entries
    assert replica.producers.producers.keys() == led.producers.producers.keys() != set()
    assert topic.partition(follower).topic_stats.aux_state_requests > 0
    # the new leader serves the whole topic, and continues copying
    cluster.move_leader("away", to=follower)
    topic.produce(20, 62)
    topic.wait_local_start(70, follower)
    assert topic.read(82, isolation_level="read_committed") == [0, *range(2, 82)]
    topic.admin.delete_topics(["away"])
    wait_until(lambda: not [name for name in object_names(cluster) if "away" in name])


def object_names(cluster: Broker) -> list[str]:
    storage = next(iter(cluster.nodes.values()))._tiered_storage
    assert storage is not None
    assert isinstance(storage.storage, ObjectStorage)
    return storage.storage.list()


def objects_of_topic(cluster: Broker, topic: str) -> list[str]:
    return [name for name in object_names(cluster) if name.startswith(topic)]


def test_leader_change_during_a_copy_leaves_no_orphaned_objects(
    cluster: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = TieredTopic(cluster, "moved", replicas=2)
    first = cluster.leader("moved")
    storage = cluster.nodes[first]._tiered_storage
    assert storage is not None
    put, reached, resume = storage.storage.put, threading.Event(), threading.Event()
    paused: list[str] = []

    def paused_put(name: str, content: Path | bytes) -> None:
        put(name, content)
        if name.startswith("moved") and name.endswith(".snapshot"):
            paused.append(name.removesuffix(".snapshot"))
            reached.set()
            assert resume.wait(SECONDS)

    delete, failed = storage.storage.delete, threading.Event()

    def failing_delete(objects: Sequence[str]) -> None:
        if not failed.is_set():
            failed.set()
            raise RemoteStorageError("once")
        delete(objects)

    monkeypatch.setattr(storage.storage, "put", paused_put)
    monkeypatch.setattr(storage.storage, "delete", failing_delete)
    topic.produce(20)
    assert reached.wait(SECONDS)
    second = cluster.move_leader("moved")
    # the new leader copies the range itself, and deletes the copy of the old one, which is not finished
    topic.wait_local_start(14, second)
    wait_until(lambda: not any(name.startswith(paused[0]) for name in object_names(cluster)))
    resume.set()
    assert failed.wait(SECONDS), "the old leader deletes its late objects, and retries after a failure"
    monkeypatch.setattr(storage.storage, "put", put)
    assert topic.read(20) == list(range(20))
    wait_until(lambda: len(objects_of_topic(cluster, "moved")) == 2 * 5)
    # both brokers delete locally
    topic.wait_local_start(14, first)

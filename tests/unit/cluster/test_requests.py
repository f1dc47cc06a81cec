"""The controller's requests: a broker that applies them has the image of the controller, whatever was sent before."""

from __future__ import annotations

import random
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from ottla.cluster.broker.metadata_updates import with_leader_and_isr, with_metadata
from ottla.cluster.controller import requests
from ottla.cluster.controller.channels import VERSIONS
from ottla.cluster.image import image_delta
from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from ottla.config.broker.listener_config import Endpoint
from ottla.protocol.message import Request, decode, encode

BROKERS = {n: BrokerImage(n, (Endpoint("PLAINTEXT", "127.0.0.1", 9000 + n),), f"rack-{n}") for n in range(4)}
RECEIVER = 0


def change_randomly(image: ClusterImage, rng: random.Random) -> ClusterImage:
    """Return the image after random changes of topics."""
    topics = dict(image.topics)
    for _ in range(rng.randrange(1, 6)):
        name = rng.choice("abcd")
        topic = topics.get(name)
        if topic is None:
            topics[name] = TopicImage(name, UUID(int=rng.getrandbits(128)), (partition(rng),))
        elif rng.random() < 0.2:
            del topics[name]
        elif rng.random() < 0.3:
            topics[name] = replace(topic, partitions=(*topic.partitions, partition(rng)))
        else:
            index = rng.randrange(len(topic.partitions))
            now = change_partition(topic.partitions[index], rng)
            partitions = (*topic.partitions[:index], now, *topic.partitions[index + 1 :])
            topics[name] = replace(topic, partitions=partitions)
    brokers = {n: broker for n, broker in BROKERS.items() if n == RECEIVER or rng.random() < 0.8}
    return replace(image, brokers=MappingProxyType(brokers)).with_topics(topics)


def partition(rng: random.Random) -> PartitionImage:
    replicas = tuple(rng.sample(range(4), 2))
    return PartitionImage(replicas[0], 0, replicas, replicas)


def change_partition(p: PartitionImage, rng: random.Random) -> PartitionImage:
    if rng.random() < 0.4:
        return replace(p, isr=p.isr[:1], state_version=p.state_version + 1)
    replicas = tuple(rng.sample(range(4), 2))
    return replace(p, leader=replicas[-1], leader_epoch=p.leader_epoch + 1, replicas=replicas, state_version=0)


def decoded(request: Request[Any]) -> Any:
    """Return the request as the broker decodes it."""
    version = VERSIONS[request.NAME]
    data = bytearray()
    encode(request, version, data)
    return decode(type(request), memoryview(data), version, 0)


def apply_requests(image: ClusterImage, before: ClusterImage | None, after: ClusterImage) -> ClusterImage:
    leader_and_isr = requests.leader_and_isr(before, after, BROKERS[RECEIVER])
    metadata = requests.update_metadata(before, after, BROKERS[RECEIVER])
    if leader_and_isr is not None:
        image = with_leader_and_isr(image, decoded(leader_and_isr))
    if metadata is not None:
        image = with_metadata(image, decoded(metadata), {}, {}, RECEIVER)
    return image


@pytest.mark.parametrize("seed", range(50))
def test_deltas_add_up_to_the_current_image(seed: int) -> None:
    rng = random.Random(seed)
    controller_image = replace(ClusterImage("c", 1, 1), brokers=BROKERS)
    last: ClusterImage | None = None
    broker_image = ClusterImage("c")
    for _ in range(8):
        controller_image = change_randomly(controller_image, rng)
        if rng.random() < 0.7:  # else the change is sent with the next one
            broker_image = apply_requests(broker_image, last, controller_image)
            last = controller_image
    broker_image = apply_requests(broker_image, last, controller_image)
    assert broker_image.topics == controller_image.topics
    assert broker_image.names == controller_image.names
    assert broker_image.brokers == controller_image.brokers


def test_unchanged_image_makes_no_requests() -> None:
    image = change_randomly(replace(ClusterImage("c", 1, 1), brokers=BROKERS), random.Random(1))
    for make in (requests.leader_and_isr, requests.update_metadata):
        assert make(image, image, BROKERS[RECEIVER]) is None
    assert not image_delta.stopped_replicas(image, image, RECEIVER)


def test_full_update_removes_deleted_topics() -> None:
    rng = random.Random(2)
    controller_image = change_randomly(replace(ClusterImage("c", 1, 1), brokers=BROKERS), rng)
    broker_image = apply_requests(ClusterImage("c"), None, controller_image)
    deleted = next(iter(controller_image.topics))
    controller_image = controller_image.with_topics(
        {name: t for name, t in controller_image.topics.items() if name != deleted}
    )
    assert apply_requests(broker_image, None, controller_image).topics == controller_image.topics


def test_outdated_state_does_not_replace_a_newer_one() -> None:
    rng = random.Random(3)
    first = change_randomly(replace(ClusterImage("c", 1, 1), brokers=BROKERS), rng)
    name = next(iter(first.topics))
    topic = first.topics[name]
    newer = replace(topic.partitions[0], leader_epoch=5)
    second = first.with_topics({**first.topics, name: replace(topic, partitions=(newer, *topic.partitions[1:]))})
    broker_image = apply_requests(apply_requests(ClusterImage("c"), None, second), second, second)
    late = requests.update_metadata(None, first, BROKERS[RECEIVER])
    assert late is not None
    late.type = image_delta.INCREMENTAL
    assert with_metadata(broker_image, late, {}, {}, RECEIVER).topics == second.topics


def test_former_controller_forgets_what_only_the_controller_knows() -> None:
    own = replace(
        ClusterImage("c", RECEIVER, 1),
        deleting={"a": TopicImage("a", UUID(int=1), ())},
        shutting_down=frozenset({1}),
    )
    for before in (None, replace(ClusterImage("c", 1, 2), brokers=BROKERS)):
        image = apply_requests(own, before, replace(ClusterImage("c", 2, 3), brokers=BROKERS))
        assert (image.controller_id, image.deleting, image.shutting_down) == (2, {}, frozenset())


@pytest.mark.parametrize("seed", range(20))
def test_shared_requests_equal_those_of_each_broker(seed: int) -> None:
    rng = random.Random(seed)
    first = change_randomly(ClusterImage("cluster", controller_id=1, controller_epoch=7), rng)
    second = change_randomly(first, rng)
    shared = requests.BrokerRequests()
    version = VERSIONS["UpdateMetadata"]
    for before, after in ((None, first), (first, second), (None, second), (second, second)):
        for n, epoch in enumerate((0, 1, 1 << 40, -1)):
            broker = replace(BROKERS[n], epoch=epoch)
            assert shared.leader_and_isr(before, after, broker) == requests.leader_and_isr(before, after, broker)
            request = shared.update_metadata(before, after, broker)
            plain = requests.update_metadata(before, after, broker)
            assert (request is None) is (plain is None)
            if request is not None and plain is not None:
                assert encode(request, version) == encode(plain, version)
                assert (request.API_KEY, request.NAME) == (plain.API_KEY, plain.NAME)
                assert type(request).RESPONSE is type(plain).RESPONSE


def test_update_metadata_of_a_difference_is_built_once_for_all_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    build = requests.update_metadata

    def count(before: ClusterImage | None, after: ClusterImage, to: BrokerImage) -> Any:
        built.append(to)
        return build(before, after, to)

    monkeypatch.setattr(requests, "update_metadata", count)
    image = change_randomly(ClusterImage("cluster"), random.Random(1))
    shared = requests.BrokerRequests()
    for broker in BROKERS.values():
        assert shared.update_metadata(None, image, broker) is not None
    assert len(built) == 1

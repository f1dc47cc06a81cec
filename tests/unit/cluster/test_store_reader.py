"""The values of znodes, as Kafka writes them."""

from __future__ import annotations

import pytest

from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import BrokerImage
from ottla.cluster.store import config_entities, znodes
from ottla.cluster.store.metadata_store import ZNode
from ottla.cluster.store.zk_client import broker_address
from ottla.config.broker.listener_config import Endpoint

TLS, PASSWORDS = Endpoint("INSIDE", "a", 1, "SSL"), Endpoint("SASL", "a", 2, "SASL_PLAINTEXT")
PLAIN = Endpoint("OLD", "a", 3, "PLAINTEXT")


@pytest.mark.parametrize(
    ("endpoints", "address"), [((TLS, PASSWORDS, PLAIN), ("a", 3)), ((TLS, PASSWORDS), None), ((PLAIN,), ("a", 3))]
)
def test_broker_value_has_the_plaintext_listener_for_0_8(
    endpoints: tuple[Endpoint, ...], address: tuple[str, int] | None
) -> None:
    written = store_reader.broker_value(BrokerImage(1, endpoints))
    assert broker_address(written) == address
    value = znodes.load(written)
    assert (value["host"], value["port"]) == (address or (None, -1))
    assert store_reader.broker_image(1, ZNode(written, 0, 7)).endpoints == endpoints


@pytest.mark.parametrize(
    ("name", "text"), [("a.b-c_d", "a.b-c_d"), ("a b*c~d/ä", "a%20b%2Ac%7Ed%2F%C3%A4"), (None, "<default>")]
)
def test_entity_names_are_encoded_as_in_kafka(name: str | None, text: str) -> None:
    assert config_entities.encoded(name) == text
    assert config_entities.decoded(text) == name

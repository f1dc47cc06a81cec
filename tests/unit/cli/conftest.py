"""Fixtures shared by the tests of the command-line tools."""

from __future__ import annotations

import pytest

from ottla import Broker, KafkaAdminClient, NewTopic


@pytest.fixture
def topic(ottla_broker: Broker, ottla_topic: str) -> str:
    """A topic of two partitions, without topic configs."""
    with KafkaAdminClient(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(ottla_topic, 2, 1)])
    return ottla_topic

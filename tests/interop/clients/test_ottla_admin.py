"""The scenarios of our admin client against Apache Kafka 3.9 and 4.3."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from scripts import apache_kafka
from tests.interop import kafka_jars
from tests.interop.kafka_jars import server
from tests.unit.client.admin_scenarios import SCENARIOS, Scenario

from ottla import KafkaAdminClient, errors
from ottla.net.ports import free_port

pytestmark = pytest.mark.interop

AUTHORIZER_CONFIGS = """
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
super.users=User:ANONYMOUS
"""


class Cluster(NamedTuple):
    """A node of Apache Kafka: broker on a port, controller on the next."""

    kind: str
    port: int
    admin: KafkaAdminClient


@pytest.fixture(scope="module", params=["3.9.2", "4.3.1"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    version: str = request.param
    reason = apache_kafka.missing(version)
    if reason:
        pytest.skip(reason)
    directory, port = tmp_path_factory.mktemp(f"kafka-{version}"), free_port(in_a_row=2)
    command = kafka_jars.prepare_node(directory, port, version)
    with (directory / "server.properties").open("a") as properties:
        properties.write(AUTHORIZER_CONFIGS)
    with (
        server(command, port, directory / "out.txt", kill=True),
        KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}") as admin,
    ):
        admin.describe_cluster()
        yield Cluster(version.rpartition(".")[0], port, admin)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_admin_scenario_passes_against_apache_kafka(scenario: Scenario, cluster: Cluster) -> None:
    scenario(cluster.admin, f"s-{uuid.uuid4().hex[:8]}", cluster.kind)


@pytest.mark.option("bootstrap.controllers")
def test_admin_client_connects_to_bootstrap_controllers(cluster: Cluster) -> None:
    with KafkaAdminClient(bootstrap_controllers=f"127.0.0.1:{cluster.port + 1}") as admin:
        description = admin.describe_cluster()
        assert [(node.id, node.port) for node in description.nodes] == [(1, cluster.port + 1)]
        assert admin.describe_metadata_quorum().leader_id == 1
        assert admin.describe_features().supported
        with pytest.raises(errors.KafkaError):
            admin.list_topics(timeout_ms=500)

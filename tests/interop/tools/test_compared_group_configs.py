"""Group configs by Kafka's kafka-configs: Ottla has those of Kafka 4.3.1, and accepts and rejects the same values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripts import apache_kafka
from tests.interop.kafka_jars import prepare_node, server

from ottla import Broker
from ottla.net.ports import free_port

pytestmark = pytest.mark.interop

OTHER_DEFAULTS = {"consumer.assignment.interval.ms", "share.assignment.interval.ms"}
"""0 here: members get their partitions at once."""


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Addresses of Apache Kafka and of Ottla."""
    if reason := apache_kafka.missing():
        pytest.skip(reason)
    folder, port = tmp_path_factory.mktemp("kafka"), free_port(in_a_row=2)
    with server(prepare_node(folder, port), port, folder / "out.txt", kill=True), Broker() as ours:
        yield f"127.0.0.1:{port}", ours.bootstrap_servers


def configs(address: str, *arguments: str) -> tuple[int, str]:
    """Run kafka-configs for a group. Return its exit status and output."""
    options = ("--bootstrap-server", address, "--entity-type", "groups", "--entity-name", "g", *arguments)
    result = apache_kafka.tool("kafka.admin.ConfigCommand", *options)
    return result.returncode, result.stdout + result.stderr


def test_configs_of_a_group_have_the_names_and_defaults_of_kafka(addresses: tuple[str, str]) -> None:
    described = []
    for address in addresses:
        status, output = configs(address, "--describe", "--all")
        assert status == 0, output
        lines = (line.split()[0].partition("=") for line in output.splitlines() if "synonyms=" in line)
        described.append({name: "" if name in OTHER_DEFAULTS else value for name, _, value in lines})
    kafka, ours = described
    assert kafka
    assert ours == kafka


@pytest.mark.parametrize(
    "config",
    [
        *(f"share.delivery.count.limit={value}" for value in (1, 2, 10, 11)),
        *(f"share.partition.max.record.locks={value}" for value in (99, 100, 4000, 4001)),
        *(f"share.renew.acknowledge.enable={value}" for value in ("false", "maybe")),
        *(f"share.auto.offset.reset={value}" for value in ("none", "by_duration", "by_duration:")),
        *(f"share.auto.offset.reset=by_duration:{value}" for value in ("PT1H", "P2DT3H4M5.6S", "P1DT", "-PT1H", "1h")),
        *(f"consumer.assignment.interval.ms={value}" for value in (-1, 0, 15000, 15001)),
        *(f"share.assignment.interval.ms={value}" for value in (500, 15001)),
        "streams.assignment.interval.ms=15001",
        "share.assignor.offload.enable=true",
    ],
)
def test_value_of_a_group_config_is_accepted_or_rejected_as_by_kafka(addresses: tuple[str, str], config: str) -> None:
    results = []
    for address in addresses:
        status, output = configs(address, "--alter", "--add-config", config)
        results.append((status, "InvalidConfigurationException" in output, "must be less than or equal to" in output))
    kafka, ours = results
    assert ours == kafka

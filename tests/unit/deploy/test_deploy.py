"""Configs of the container image, and the files that deploy it: Kubernetes manifests, compose files, Containerfile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ottla.config import environment, properties
from ottla.config.broker.broker_config import BrokerConfig

DEPLOY = Path(__file__).parents[3] / "deploy"
IMAGE = DEPLOY / "server.properties"


def config(variables: dict[str, str]) -> BrokerConfig:
    configs: dict[str, Any] = dict(properties.load(IMAGE)) | environment.configs_of(variables)
    return BrokerConfig.from_kafka(configs)


def test_environment_variables_are_named_as_in_kafkas_image() -> None:
    assert environment.configs_of(
        {
            "KAFKA_LOG_DIRS": " /data ",
            "KAFKA_LISTENER_NAME_CLIENT__A_SSL_KEYSTORE_TYPE": "PEM",
            "KAFKA_LISTENER_NAME_IN___SIDE_SASL_ENABLED_MECHANISMS": "PLAIN",
            "KAFKA_HEAP_OPTS": "-Xmx1G",
            "LOG_DIRS": "/other",
        }
    ) == {
        "log.dirs": "/data",
        "listener.name.client_a.ssl.keystore.type": "PEM",
        "listener.name.in-side.sasl.enabled.mechanisms": "PLAIN",
    }


def test_kubernetes_service_variables_are_not_configs() -> None:
    links = {
        "KAFKA_SERVICE_HOST": "10.0.0.1",
        "KAFKA_PORT_9092_TCP": "tcp://10.0.0.1:9092",
        "KAFKA_PORT": "tcp://10.0.0.1:9092",
    }
    assert environment.configs_of(links) == {}
    assert environment.configs_of({"KAFKA_PORT": "9092"}) == {"port": "9092"}


def test_environment_variables_of_kafkas_image_are_accepted() -> None:
    kraft = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_NUM_PARTITIONS": "3",
    }
    broker_config = config(kraft)
    assert (broker_config.num_partitions, broker_config.id, len(broker_config.listeners)) == (3, 1, 1)


def manifests() -> Iterator[Any]:
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for manifest in yaml.safe_load_all(file.read_text()):
            yield pytest.param(manifest, id=f"{file.stem}-{manifest['kind']}-{manifest['metadata']['name']}")


@pytest.mark.parametrize("manifest", list(manifests()))
def test_kubernetes_manifests_are_valid(manifest: Any) -> None:
    kubernetes_validate.validate(manifest, "1.34", strict=True)


def services() -> Iterator[Any]:
    """Yield the environment variables of each broker in the manifests and the compose files."""
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for manifest in yaml.safe_load_all(file.read_text()):
            if manifest["kind"] == "StatefulSet":
                (container,) = manifest["spec"]["template"]["spec"]["containers"]
                variables = {variable["name"]: variable.get("value", "") for variable in container["env"]}
                # Values that Kubernetes fills in: the ordinal of the pod, its node, a secret.
                filled = {"KAFKA_BROKER_ID": "0", "KAFKA_BROKER_RACK": "node", "KAFKA_OTTLA_HTTP_PASSWORDS": "a:b"}
                yield pytest.param(variables | {k: v for k, v in filled.items() if k in variables}, id=f"{file.stem}")
    for file in sorted((DEPLOY / "compose").glob("*.yaml")):
        for name, service in yaml.safe_load(file.read_text())["services"].items():
            if service["image"] == "ottla":
                yield pytest.param(service.get("environment", {}), id=f"{file.stem}-{name}")


@pytest.mark.parametrize("variables", list(services()))
def test_broker_configs_of_manifests_and_compose_files_are_valid(
    variables: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    broker_config = config(variables)
    assert broker_config.ottla_http_listener is not None
    assert not caplog.records, "a config is unknown or has no effect"


def test_files_mounted_by_compose_files_exist() -> None:
    for file in (DEPLOY / "compose").glob("*.yaml"):
        for service in yaml.safe_load(file.read_text())["services"].values():
            for volume in service.get("volumes", ()):
                source = volume.partition(":")[0]
                assert not source.startswith(".") or (file.parent / source).exists(), source


def copied_files() -> list[str]:
    """Return what the Containerfile copies from the clone."""
    lines = [line.split() for line in (DEPLOY / "Containerfile").read_text().splitlines()]
    return [
        source for line in lines if line[:1] == ["COPY"] and not line[1].startswith("--from") for source in line[1:-1]
    ]


def test_containerfile_copies_existing_files() -> None:
    for source in copied_files():
        assert (DEPLOY.parent / source).exists(), source


def test_build_context_of_container_image_is_what_the_containerfile_copies() -> None:
    patterns = [
        line for line in (DEPLOY.parent / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")
    ]
    assert patterns[0] == "*"
    assert sorted(pattern[1:] for pattern in patterns if pattern.startswith("!")) == sorted(copied_files())
    assert "**/*.so" in patterns, "modules compiled for another Python would be copied"


@pytest.mark.parametrize("directory", ["/var/lib/ottla", "/var/lib/kafka/data"])
def test_containerfile_creates_data_directories_for_its_user(directory: str) -> None:
    # A new volume of Docker gets the owner of the directory in the image, or root where there is none.
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    assert f"COPY --from=build --chown=nonroot:nonroot /data {directory}" in lines

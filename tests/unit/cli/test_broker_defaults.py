"""The configs of `ottla broker` without a properties file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from ottla.cli import broker
from ottla.cli.main import main


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replace the start of brokers. Return the configs that they would be started with."""
    configs: list[dict[str, Any]] = []

    def start(node_configs: dict[str, Any], _args: argparse.Namespace, _started: float) -> int:
        configs.append(node_configs)
        return 0

    monkeypatch.setattr(broker, "_run_node", start)
    monkeypatch.setattr("ottla.cli.broker.log_output.configure", lambda *_, **__: None)
    monkeypatch.setattr(broker, "_allow_files", lambda: None)
    return configs


def test_broker_without_a_file_has_an_http_listener_on_loopback(started: list[dict[str, Any]]) -> None:
    assert main(["broker"]) == 0
    assert started == [{"ottla.http.listener": "127.0.0.1:9644", "group.initial.rebalance.delay.ms": 0}]


def test_broker_with_a_file_has_no_default_http_listener(started: list[dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\n")
    assert main(["broker", str(file)]) == 0
    assert started == [{"broker.id": "1"}]


def test_override_disables_the_default_http_listener(started: list[dict[str, Any]]) -> None:
    assert main(["broker", "--override", "ottla.http.listener="]) == 0
    assert started == [{"ottla.http.listener": "", "group.initial.rebalance.delay.ms": 0}]


def test_environment_variables_override_the_properties_file(
    started: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "3")
    monkeypatch.setenv("KAFKA_BROKER_ID", "3")
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\n")
    assert main(["broker", str(file), "--environment", "--override", "broker.id=4"]) == 0
    assert started.pop() == {"broker.id": "4", "num.partitions": "3"}
    assert main(["broker", str(file)]) == 0
    assert started == [{"broker.id": "1"}]

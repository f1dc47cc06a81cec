"""`ottla mirror-maker` between two brokers in this process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.mirroring import mm2_properties
from tests.whole_topic import whole_topic

from ottla import Broker, KafkaProducer
from ottla.cli.main import main


def write_properties(path: Path, properties: dict[str, str]) -> str:
    path.write_text("".join(f"{name} = {value}\n" for name, value in properties.items()))
    return str(path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_mirror_maker_prints_progress_until_a_signal(
    ottla_broker: Broker, topic: str, tmp_path: Path, number: signal.Signals
) -> None:
    with KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        for value in range(100):
            producer.send(topic, b"%d" % value, partition=value % 2)
    with Broker() as target:
        address = target.bootstrap_servers
        configs = {"topics": topic, "emit_heartbeats_enabled": "false"}
        file = write_properties(tmp_path / "mm2", mm2_properties(ottla_broker.bootstrap_servers, address, **configs))
        arguments = (
            "mirror-maker",
            file,
            "--clusters",
            "B",
            "--json",
            "--report-interval",
            "0.1",
            "--log-level",
            "warning",
        )
        with subprocess.Popen([sys.executable, "-m", "ottla", *arguments], stdout=subprocess.PIPE) as tool:
            assert tool.stdout is not None
            report: dict[str, Any] = {}
            while report.get("records", 0) < 100:
                report = json.loads(tool.stdout.readline())
            tool.send_signal(number)
            assert tool.wait(20) == 128 + number
        assert list(report) == ["flow", "records_per_second", "bytes_per_second", "lag", "records", "partitions"]
        assert (report["flow"], report["lag"], report["records"], report["partitions"]) == ("A->B", 0, 100, 2)
        assert len(whole_topic(address, f"A.{topic}", 2)) == 100


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ({"clusters": "A"}, "clusters: expected at least two"),
        ({"A__B_enabled": "maybe"}, "enabled: 'maybe' is not allowed"),
        ({"A__B_enabled": "false"}, "no flow is enabled"),
    ],
)
def test_invalid_configs_are_rejected_in_one_line(
    configs: dict[str, str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "mirror-maker",
                write_properties(tmp_path / "mm2", mm2_properties("127.0.0.1:1", "127.0.0.1:1", **configs)),
            ]
        )
        == 1
    )
    output = capsys.readouterr()
    assert words in output.err
    assert (output.err.count("\n"), output.out) == (1, "")


def test_unreachable_cluster_ends_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unreachable = mm2_properties("127.0.0.1:1", "127.0.0.1:1")
    limits = {f"{alias}.default.api.timeout.ms": "300" for alias in "AB"}
    limits |= {f"{alias}.request.timeout.ms": "200" for alias in "AB"}
    assert main(["mirror-maker", write_properties(tmp_path / "mm2", unreachable | limits), "--log-level", "error"]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_missing_properties_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mirror-maker", "/nowhere/mm2.properties"]) == 1
    assert "/nowhere/mm2.properties" in capsys.readouterr().err

"""The page visits example of Kafka 0.8, run as its docstring describes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla import Broker
from ottla.cli.main import main

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "legacy" / "page_visits.py"


def test_page_visits_example_partitions_by_ip_on_one_node(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        at = ("--bootstrap-server", broker.bootstrap_servers)
        assert main(["create-topic", "--topic", "page_visits", "--replica", "1", "--partition", "5", *at]) == 0
        subprocess.run([sys.executable, EXAMPLE, "100", broker.bootstrap_servers], check=True, timeout=30)
        capsys.readouterr()
        print_options = ("--property", "print.partition=true", "--property", "print.key=true", "--max-messages", "100")
        assert main(["console-consumer", *at, "--topic", "page_visits", "--from-beginning", *print_options]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 100
    for partition, key, value in lines:
        millis, site, ip = value.split(",")
        assert int(millis) > 1_700_000_000_000
        assert (site, ip) == ("www.example.com", key)
        assert ip.startswith("192.168.2.")
        assert int(partition.removeprefix("Partition:")) == int(ip.rpartition(".")[2]) % 5

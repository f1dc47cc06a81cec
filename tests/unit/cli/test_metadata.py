"""`ottla metadata` on a metadata store that several brokers share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla import Broker
from ottla.cli.main import main


def test_dump_of_a_shared_metadata_store_works_while_brokers_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Broker(data_dir=tmp_path, brokers=2):
        assert main(["metadata", "dump", "--data", str(tmp_path / "metadata")]) == 0
        nodes = json.loads(capsys.readouterr().out)
        assert {"/brokers/ids/0", "/brokers/ids/1", "/controller"} <= nodes.keys()
        export = ["metadata", "export", "--zookeeper", "127.0.0.1:1", "--data", str(tmp_path / "metadata")]
        assert main(export) == 1
        assert "stop them first" in capsys.readouterr().err
    assert main(["metadata", "dump", "--data", str(tmp_path / "metadata")]) == 0
    assert "/brokers/ids/0" not in json.loads(capsys.readouterr().out)
    assert not (tmp_path / "metadata" / "meta.properties").exists()


def test_dump_of_a_node_directory_names_the_shared_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(data_dir=tmp_path, brokers=2):
        assert main(["metadata", "dump", "--data", str(tmp_path)]) == 1
    assert f"the one that several brokers share is in {tmp_path / 'metadata'}" in capsys.readouterr().err

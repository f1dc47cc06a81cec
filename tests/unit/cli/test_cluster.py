"""`ottla cluster`: what is written and remembered, and what is refused. No server is started here."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.cli.cluster import daemon
from ottla.cli.cluster.cluster import _signal
from ottla.cli.cluster.local_cluster import LocalCluster, defaults, locked
from ottla.cli.cluster.status import Status, as_text, status
from ottla.cli.main import main
from ottla.config import properties
from ottla.config.broker import BrokerConfig
from ottla.errors import ConfigurationError


def make(directory: Path, brokers: int = 3, **settings: str) -> LocalCluster:
    directory.mkdir(exist_ok=True)
    options = {name.replace("_", "."): value for name, value in settings.items()}
    return LocalCluster.create(directory, brokers, 9092, 2181, options)


def test_a_new_cluster_has_a_properties_file_per_broker(tmp_path: Path) -> None:
    cluster = make(tmp_path, log_retention_ms="1000")
    for broker in cluster.brokers:
        config = BrokerConfig.from_kafka(properties.load(tmp_path / f"server-{broker.id}.properties"))
        assert (config.broker_id, config.listeners[0].port) == (broker.id, 9092 + broker.id)
        assert (config.zookeeper_connect, config.min_insync_replicas) == ("127.0.0.1:2181", 2)
        assert (config.offsets_topic_replication_factor, config.log_retention_ms) == (3, 1000)
    assert len({properties.load(p)["log.dirs"] for p in tmp_path.glob("server-*.properties")}) == 3


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_replicas_are_as_many_as_brokers_and_three_at_most(brokers: int, replicas: int, in_sync: int) -> None:
    options = defaults(brokers)
    assert {options[name] for name in options if name.endswith("replication.factor")} == {str(replicas)}
    assert {options[name] for name in options if name.endswith(("min.isr", "insync.replicas"))} == {str(in_sync)}


def test_what_a_command_leaves_the_next_one_finds(tmp_path: Path) -> None:
    cluster = make(tmp_path)
    cluster.brokers[1].pid = 12
    cluster.save()
    assert LocalCluster.load(tmp_path) == cluster
    assert LocalCluster.load(tmp_path / "elsewhere") is None


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"brokers": 3')
    with pytest.raises(ConfigurationError, match=r"cluster\.json is damaged"):
        LocalCluster.load(tmp_path)


def test_a_further_broker_takes_over_what_the_last_has(tmp_path: Path) -> None:
    cluster = make(tmp_path, compression_type="zstd")
    added = cluster.add(cluster.common_configs() | {"broker.rack": "b"})
    written = properties.load(cluster.properties(added))
    assert (added.id, added.port) == (3, 9095)
    assert (written["compression.type"], written["broker.rack"]) == ("zstd", "b")
    assert "broker.rack" not in cluster.common_configs()


def test_free_ports_are_chosen_once(tmp_path: Path) -> None:
    cluster = LocalCluster.create(tmp_path, 2, 0, 0, {})
    ports = {cluster.zookeeper_port, *(broker.port for broker in cluster.brokers)}
    assert len(ports) == 3
    assert 0 not in ports
    again = LocalCluster.load(tmp_path)
    assert again is not None
    assert again.zookeeper_connect == cluster.zookeeper_connect


def test_cluster_without_zookeeper_shares_a_metadata_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = LocalCluster.create(tmp_path, 2, 0, None, {})
    directories = {properties.load(cluster.properties(broker))["ottla.metadata.dir"] for broker in cluster.brokers}
    assert directories == {str(tmp_path / "metadata")}
    again = LocalCluster.load(tmp_path)
    assert again is not None
    assert again.zookeeper is None
    assert main(["cluster", "kill", "zookeeper", "--dir", str(tmp_path)]) == 1
    assert "has no ZooKeeper" in capsys.readouterr().err


def test_what_every_broker_has_for_itself_cannot_be_given(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"log\.dirs: each broker"):
        make(tmp_path, log_dirs="/tmp/x")


def test_one_command_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(ConfigurationError, match="another command"), locked(tmp_path):
        pass


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("up", "--brokers", "0"), "--brokers: 0"),
        (("up", "--override", "nonsense"), "key=value"),
        (("kill", "1"), "no cluster"),
        (("status",), "no cluster"),
        (("down",), "no cluster"),
    ],
)
def test_what_is_refused_is_one_line_and_leaves_no_cluster(
    arguments: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", *arguments, "--dir", str(tmp_path / "c")]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not (tmp_path / "c" / "cluster.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("kill", "9"), "there is no broker 9; brokers are 0, 1"),
        (("kill", "one"), "a broker id or zookeeper"),
        (("kill", "0"), "broker 0 does not run"),
        (("up", "--brokers", "3"), "has a cluster of 2 brokers"),
        (("up", "--override", "a=b"), "edit server-N.properties"),
    ],
)
def test_what_does_not_suit_the_cluster_is_refused(
    arguments: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, 2)
    assert main(["cluster", *arguments, "--dir", str(tmp_path)]) == 1
    assert words in capsys.readouterr().err


def test_signals_are_known_by_name_and_number() -> None:
    assert [_signal(text) for text in ("KILL", "sigterm", "9")] == [signal.SIGKILL, signal.SIGTERM, signal.SIGKILL]


def test_status_of_a_stopped_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, 2)
    assert main(["cluster", "status", "--dir", str(tmp_path), "--format", "json"]) == 1
    output = json.loads(capsys.readouterr().out)
    assert [broker["running"] for broker in output["brokers"]] == [False, False]
    assert output["controller"] is None
    assert main(["cluster", "down", "--dir", str(tmp_path)]) == 0


def test_a_paused_broker_is_not_started_but_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = make(tmp_path, 1)
    (broker,) = cluster.brokers
    wait = [sys.executable, "-c", "import time; time.sleep(60)", str(cluster.properties(broker))]
    broker.pid = daemon.start(wait, tmp_path / "log")
    cluster.save()
    try:
        assert not cluster.is_paused(broker)
        assert main(["cluster", "kill", "0", "--signal", "STOP", "--dir", str(tmp_path)]) == 0
        os.waitid(os.P_PID, broker.pid, os.WSTOPPED | os.WNOWAIT)
        assert main(["cluster", "start", "0", "--dir", str(tmp_path)]) == 1
        said = capsys.readouterr().err
        assert "broker 0 is paused (SIGSTOP): resume it with `ottla cluster kill 0 --signal CONT`" in said
        result = status(cluster)
        assert (result.brokers[0]["paused"], result.error) == (True, "all running brokers are paused (SIGSTOP)")
        assert "paused" in "\n".join(as_text(result))
        result.brokers[0]["registered"] = True
        whole = Status(result.directory, (result.zookeeper or {}) | {"running": True}, result.brokers, 0, 1, 12, [], [])
        assert not whole.is_healthy
    finally:
        daemon.send(broker.pid, str(cluster.properties(broker)), signal.SIGKILL)


def test_a_status_names_partitions_that_lack_something(tmp_path: Path) -> None:
    result = status(make(tmp_path, 1))
    assert not result.is_healthy
    result.brokers[0] |= {"running": True, "registered": True}
    whole = Status(result.directory, (result.zookeeper or {}) | {"running": True}, result.brokers, 0, 1, 12, [], [])
    assert whole.is_healthy
    whole = replace(whole, under_replicated=[f"t-{n}" for n in range(12)])
    assert not whole.is_healthy
    text = "\n".join(as_text(whole))
    assert "12 under-replicated: t-0, t-1," in text
    assert "and 2 more" in text
    assert "broker 0" in text


def test_a_process_is_known_by_what_it_was_started_with(tmp_path: Path) -> None:
    wait = [sys.executable, "-c", "import time; time.sleep(60)", str(tmp_path)]
    pid = daemon.start(wait, tmp_path / "log")
    try:
        assert daemon.is_running(pid, str(tmp_path))
        assert not daemon.is_running(pid, "another process")
        assert not daemon.send(pid, "another process", signal.SIGKILL)
        assert daemon.send(pid, str(tmp_path), signal.SIGSTOP)
        assert daemon.is_stopped(pid, str(tmp_path))
        assert daemon.send(pid, str(tmp_path), signal.SIGCONT)
        assert not daemon.is_stopped(pid, str(tmp_path))
        assert daemon.send(pid, str(tmp_path), signal.SIGSTOP)
        assert daemon.stop(pid, str(tmp_path), 10)
    finally:
        daemon.send(pid, str(tmp_path), signal.SIGKILL)
    assert not daemon.is_running(pid, str(tmp_path))
    assert not daemon.is_running(os.getpid(), str(tmp_path))


def test_each_broker_has_an_http_listener_which_the_status_shows(tmp_path: Path) -> None:
    cluster = make(tmp_path)
    addresses = [broker.http_address for broker in cluster.brokers]
    assert len(set(addresses)) == 3
    assert [
        properties.load(cluster.properties(broker))["ottla.http.listener"] for broker in cluster.brokers
    ] == addresses
    assert [broker["http"] for broker in status(cluster).brokers] == addresses
    assert addresses[1] in "\n".join(as_text(status(cluster)))
    with pytest.raises(ConfigurationError, match=r"ottla\.http\.listener"):
        cluster.add({"ottla.http.listener": addresses[0]})

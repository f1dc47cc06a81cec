"""`ottla cluster`: the files of a local cluster, its status and rejected arguments, without running brokers."""

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
from ottla.config.broker.broker_config import BrokerConfig
from ottla.errors import ConfigurationError, StartupError


def create_cluster(directory: Path, brokers: int = 3, **settings: str) -> LocalCluster:
    directory.mkdir(exist_ok=True)
    options = {name.replace("_", "."): value for name, value in settings.items()}
    return LocalCluster.create(directory, brokers, 9092, 2181, options)


def test_new_cluster_has_a_properties_file_per_broker(tmp_path: Path) -> None:
    cluster = create_cluster(tmp_path, log_retention_ms="1000")
    for broker in cluster.brokers:
        config = BrokerConfig.from_kafka(properties.load(tmp_path / f"server-{broker.id}.properties"))
        assert (config.broker_id, config.listeners[0].port) == (broker.id, 9092 + broker.id)
        assert (config.zookeeper_connect, config.min_insync_replicas) == ("127.0.0.1:2181", 2)
        assert (config.offsets_topic_replication_factor, config.log_retention_ms) == (3, 1000)
    assert len({properties.load(p)["log.dirs"] for p in tmp_path.glob("server-*.properties")}) == 3


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_replication_factor_is_the_number_of_brokers_and_at_most_three(
    brokers: int, replicas: int, in_sync: int
) -> None:
    options = defaults(brokers)
    factors = [name for name in BrokerConfig.options if name.endswith("replication.factor")]
    assert {options[name] for name in factors} == {str(replicas)}
    assert {options[name] for name in options if name.endswith(("min.isr", "insync.replicas"))} == {str(in_sync)}


def test_saved_cluster_is_loaded_by_the_next_command(tmp_path: Path) -> None:
    cluster = create_cluster(tmp_path)
    cluster.brokers[1].pid = 12
    cluster.save()
    assert LocalCluster.load(tmp_path) == cluster
    assert LocalCluster.load(tmp_path / "elsewhere") is None


def test_failed_start_names_the_brokers_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start_and_fail(_command: list[str], log: Path) -> int:
        log.write_text("ottla broker: listeners: cannot bind\n")
        return 0

    cluster = create_cluster(tmp_path)
    monkeypatch.setattr(daemon, "start", start_and_fail)
    monkeypatch.setattr(LocalCluster, "is_running", lambda _self, broker: broker.id in (1, 2))
    with pytest.raises(
        StartupError, match=r"broker 0 did not start: .*cannot bind .*; brokers 1, 2 run: .*down"
    ) as error:
        cluster.start(*cluster.brokers)
    assert "then run `ottla cluster up` again (for other ports: with --base-port PORT and another --dir)" in str(
        error.value
    )


def test_damaged_cluster_file_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"brokers": 3')
    with pytest.raises(ConfigurationError, match=r"cluster\.json is damaged"):
        LocalCluster.load(tmp_path)


def test_added_broker_inherits_the_common_configs(tmp_path: Path) -> None:
    cluster = create_cluster(tmp_path, compression_type="zstd")
    added = cluster.add(cluster.common_configs() | {"broker.rack": "b"})
    written = properties.load(cluster.properties(added))
    assert (added.id, added.port) == (3, 9095)
    assert (written["compression.type"], written["broker.rack"]) == ("zstd", "b")
    assert "broker.rack" not in cluster.common_configs()


def test_port_0_chooses_free_ports_once(tmp_path: Path) -> None:
    cluster = LocalCluster.create(tmp_path, 2, 0, 0, {})
    ports = {cluster.zookeeper_port, *(broker.port for broker in cluster.brokers)}
    assert len(ports) == 3
    assert 0 not in ports
    loaded = LocalCluster.load(tmp_path)
    assert loaded is not None
    assert loaded.zookeeper_connect == cluster.zookeeper_connect


def test_cluster_without_zookeeper_shares_a_metadata_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = LocalCluster.create(tmp_path, 2, 0, None, {})
    directories = {properties.load(cluster.properties(broker))["ottla.metadata.dir"] for broker in cluster.brokers}
    assert directories == {str(tmp_path / "metadata")}
    loaded = LocalCluster.load(tmp_path)
    assert loaded is not None
    assert loaded.zookeeper is None
    assert main(["cluster", "kill", "zookeeper", "--dir", str(tmp_path)]) == 1
    assert "has no ZooKeeper" in capsys.readouterr().err
    for option in (["--zookeeper"], ["--zookeeper-port", "0"]):
        assert main(["cluster", "up", *option, "--dir", str(tmp_path)]) == 1
        assert "has a cluster with an embedded metadata store" in capsys.readouterr().err


def test_config_that_differs_per_broker_cannot_be_overridden(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"log\.dirs: each broker"):
        create_cluster(tmp_path, log_dirs="/tmp/x")


def test_second_concurrent_command_is_rejected(tmp_path: Path) -> None:
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
def test_invalid_arguments_are_rejected_in_one_line_and_create_no_cluster(
    arguments: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", *arguments, "--dir", str(tmp_path / "c")]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "c" / "cluster.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("kill", "9"), "there is no broker 9; brokers are 0, 1"),
        (("kill", "one"), "a broker id or zookeeper"),
        (("kill", "0"), "broker 0 does not run"),
        (("up", "--brokers", "3"), "has a cluster of 2 brokers"),
        (("up", "--base-port", "19092"), "has a cluster with ports from 9092 on; for other ports, use another --dir"),
        (("up", "--override", "a=b"), "edit server-N.properties"),
    ],
)
def test_arguments_that_contradict_the_cluster_are_rejected(
    arguments: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_cluster(tmp_path, 2)
    assert main(["cluster", *arguments, "--dir", str(tmp_path)]) == 1
    assert words in capsys.readouterr().err


def test_signal_is_parsed_from_name_and_number() -> None:
    assert [_signal(text) for text in ("KILL", "sigterm", "9")] == [signal.SIGKILL, signal.SIGTERM, signal.SIGKILL]


def test_status_of_a_stopped_cluster_shows_no_running_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_cluster(tmp_path, 2)
    assert main(["cluster", "status", "--dir", str(tmp_path), "--format", "json"]) == 1
    output = json.loads(capsys.readouterr().out)
    assert [broker["running"] for broker in output["brokers"]] == [False, False]
    assert output["controller"] is None
    assert main(["cluster", "down", "--dir", str(tmp_path)]) == 0


def test_start_of_a_paused_broker_is_rejected_and_status_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = create_cluster(tmp_path, 1)
    (broker,) = cluster.brokers
    wait = [sys.executable, "-c", "import time; time.sleep(60)", str(cluster.properties(broker))]
    broker.pid = daemon.start(wait, tmp_path / "log")
    cluster.save()
    try:
        assert not cluster.is_paused(broker)
        assert main(["cluster", "kill", "0", "--signal", "STOP", "--dir", str(tmp_path)]) == 0
        os.waitid(os.P_PID, broker.pid, os.WSTOPPED | os.WNOWAIT)
        assert main(["cluster", "start", "0", "--dir", str(tmp_path)]) == 1
        error = capsys.readouterr().err
        assert "broker 0 is paused (SIGSTOP): resume it with `ottla cluster kill 0 --signal CONT`" in error
        result = status(cluster)
        assert (result.brokers[0]["paused"], result.error) == (True, "all running brokers are paused (SIGSTOP)")
        assert "paused" in "\n".join(as_text(result))
        result.brokers[0]["registered"] = True
        healthy = Status(
            result.directory, (result.zookeeper or {}) | {"running": True}, result.brokers, 0, 1, 12, [], []
        )
        assert not healthy.is_healthy
    finally:
        daemon.send(broker.pid, str(cluster.properties(broker)), signal.SIGKILL)


def test_status_lists_under_replicated_partitions(tmp_path: Path) -> None:
    result = status(create_cluster(tmp_path, 1))
    assert not result.is_healthy
    result.brokers[0] |= {"running": True, "registered": True}
    healthy = Status(result.directory, (result.zookeeper or {}) | {"running": True}, result.brokers, 0, 1, 12, [], [])
    assert healthy.is_healthy
    healthy = replace(healthy, under_replicated=[f"t-{n}" for n in range(12)])
    assert not healthy.is_healthy
    text = "\n".join(as_text(healthy))
    assert "12 under-replicated: t-0, t-1," in text
    assert "and 2 more" in text
    assert "broker 0" in text


def test_daemon_process_is_identified_by_its_arguments(tmp_path: Path) -> None:
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


def test_status_shows_the_http_listener_of_each_broker(tmp_path: Path) -> None:
    cluster = create_cluster(tmp_path)
    addresses = [broker.http_address for broker in cluster.brokers]
    assert len(set(addresses)) == 3
    assert [
        properties.load(cluster.properties(broker))["ottla.http.listener"] for broker in cluster.brokers
    ] == addresses
    assert [broker["http"] for broker in status(cluster).brokers] == addresses
    assert addresses[1] in "\n".join(as_text(status(cluster)))
    with pytest.raises(ConfigurationError, match=r"ottla\.http\.listener"):
        cluster.add({"ottla.http.listener": addresses[0]})

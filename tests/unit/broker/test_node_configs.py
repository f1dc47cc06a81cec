"""The configs and the restarts of the brokers of one node."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.broker.node import _Process
from ottla.broker.node_configs import broker_count, check_single, node_configs
from ottla.config.broker.broker_config import BrokerConfig
from ottla.errors import ConfigurationError, StartupError


def test_ports_ids_and_directories_count_up(tmp_path: Path) -> None:
    configs = {
        "broker.id": "5",
        "listeners": "PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9192",
        "advertised.listeners": "PLAINTEXT://a.example:19092,SSL://a.example:19192",
        "log.dirs": f"{tmp_path}/one,{tmp_path}/two",
    }
    first, second = node_configs(configs, 2)
    assert (first["broker.id"], second["broker.id"]) == ("5", "6")
    assert first["listeners"] == configs["listeners"]
    assert second["listeners"] == "PLAINTEXT://127.0.0.1:9093,SSL://[::1]:9193"
    assert second["advertised.listeners"] == "PLAINTEXT://a.example:19093,SSL://a.example:19193"
    assert second["log.dirs"] == f"{tmp_path}/one/broker-6,{tmp_path}/two/broker-6"
    assert first["ottla.metadata.dir"] == second["ottla.metadata.dir"] == f"{tmp_path}/one/metadata"
    assert first["broker.rack"] == second["broker.rack"] != ""


def test_port_0_stays_0_for_each_broker() -> None:
    assert [c["listeners"] for c in node_configs({"listeners": "PLAINTEXT://127.0.0.1:0"}, 3)] == [
        "PLAINTEXT://127.0.0.1:0"
    ] * 3


@pytest.mark.parametrize(("brokers", "replicas", "min_isr"), [(2, "2", "2"), (5, "3", "2")])
def test_internal_topics_have_as_many_replicas_as_possible(brokers: int, replicas: str, min_isr: str) -> None:
    for configs in node_configs({}, brokers):
        assert configs["offsets.topic.replication.factor"] == replicas
        assert configs["transaction.state.log.replication.factor"] == replicas
        assert configs["transaction.state.log.min.isr"] == min_isr
        assert configs["remote.log.metadata.topic.replication.factor"] == replicas


@pytest.mark.parametrize("prefix", ["", "rlmm.config."])
def test_configured_replication_factor_of_an_internal_topic_is_kept(prefix: str) -> None:
    name = "remote.log.metadata.topic.replication.factor"
    own = {f"ottla.broker.1.{prefix}{name}": "3"}
    first, second = (BrokerConfig.from_kafka(configs) for configs in node_configs({prefix + name: "1", **own}, 2))
    assert first.remote_log_metadata_topic_replication_factor == 1
    assert second.remote_log_metadata_topic_replication_factor == 3


def test_node_on_zookeeper_is_part_of_a_larger_cluster() -> None:
    for configs in node_configs({"zookeeper.connect": "127.0.0.1:2181"}, 2):
        assert "ottla.metadata.dir" not in configs
        assert "offsets.topic.replication.factor" not in configs


def test_config_of_one_broker_overrides_the_common_one() -> None:
    configs = {"num.partitions": "3", "ottla.broker.1.num.partitions": "7", "ottla.broker.1.broker.rack": "b"}
    first, second = node_configs(configs, 2)
    assert (first["num.partitions"], second["num.partitions"]) == ("3", "7")
    assert second["broker.rack"] == "b"
    assert not any(name.startswith("ottla.broker.") for name in (*first, *second))


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"ottla.broker.2.num.partitions": "7"}, r"ottla\.broker\.2\..*brokers 0 to 1"),
        ({"listeners": "PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9093"}, r"127\.0\.0\.1:9093 would be used by 2"),
        ({"listeners": "PLAINTEXT://127.0.0.1:65535"}, "65536.*lower first port"),
        ({"listeners": "nonsense"}, "listeners"),
    ],
)
def test_impossible_configs_are_rejected(configs: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        node_configs(configs, 2)


def test_broker_count_0_is_one_per_core_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1, 4, 5}, raising=False)
    assert [broker_count({"ottla.brokers": count}) for count in ("0", "1", "7")] == [3, 1, 7]
    with pytest.raises(ConfigurationError, match=r"ottla\.brokers"):
        broker_count({"ottla.brokers": "-1"})


def test_data_of_a_single_broker_is_not_mixed_with_that_of_several(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    with pytest.raises(StartupError, match=f"move the content to {tmp_path}/broker-0"):
        node_configs({"log.dirs": str(tmp_path)}, 2)


def test_data_of_several_brokers_is_not_opened_by_a_single_one(tmp_path: Path) -> None:
    configs = {"log.dirs": str(tmp_path)}
    check_single(configs)
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "registry.sqlite").touch()
    with pytest.raises(StartupError, match="--brokers"):
        check_single(configs)


@pytest.mark.parametrize(
    ("listener", "expected"),
    [
        ("127.0.0.1:9644", ["127.0.0.1:9644", "127.0.0.1:9645"]),
        ("https://0.0.0.0:9644", ["https://0.0.0.0:9644", "https://0.0.0.0:9645"]),
        ("127.0.0.1:0", ["127.0.0.1:0", "127.0.0.1:0"]),
    ],
)
def test_http_listeners_of_the_brokers_have_ports_that_count_up(
    tmp_path: Path, listener: str, expected: list[str]
) -> None:
    configs = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0", "ottla.http.listener": listener}
    brokers = node_configs(configs, 2)
    assert [broker["ottla.http.listener"] for broker in brokers] == expected
    assert all(BrokerConfig.from_kafka(broker).ottla_http_listener for broker in brokers)


async def _run_until_logged(process: _Process, caplog: pytest.LogCaptureFixture, lines: int) -> None:
    """Keep a process running until there are this many log lines, and stop it."""
    running = asyncio.ensure_future(process.keep_running())
    async with asyncio.timeout(60):
        while len(caplog.messages) < lines:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait([running])
    await process.stop()


async def test_restart_that_fails_is_logged_with_its_exit_code(caplog: pytest.LogCaptureFixture) -> None:
    process = _Process({"broker.id": 5}, ["--no-such-option"])
    with pytest.raises(StartupError, match="exit code 2"):
        await process.start()
    await _run_until_logged(process, caplog, 2)
    assert ["has ended with exit code 2; restarting" in message for message in caplog.messages[:2]] == [True, True]


async def test_process_that_cannot_be_created_is_started_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = _Process({"broker.id": 5}, ["--no-such-option"])
    with pytest.raises(StartupError, match="exit code 2"):
        await process.start()

    async def fail(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", fail)
    await _run_until_logged(process, caplog, 3)
    assert caplog.messages[1] == "Cannot start broker 5: [Errno 11] Resource temporarily unavailable"
    assert "restarting it" in caplog.messages[2]

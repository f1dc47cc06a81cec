"""Health probes and signals while a broker starts: what it says, and that it stops."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker
from tests.unit.broker.http.fetching import LISTENER, get, url_of

from ottla.broker.server.broker_node import BrokerNode
from ottla.cluster.broker.lifecycle import BrokerLifecycle
from ottla.config.broker.broker_config import BrokerConfig
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.storage.log_dir import CLEAN_SHUTDOWN, LogDir


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Hold up the opening of the second log until the returned event is set."""
    proceed, number = threading.Event(), 0
    real = LogDir._load_one

    def load_one(self: LogDir, *arguments: Any) -> Any:
        nonlocal number
        number += 1
        if number == 2:
            proceed.wait(20)
        return real(self, *arguments)

    monkeypatch.setattr(LogDir, "_load_one", load_one)
    return proceed


def killed(data: Path) -> BrokerNode:
    """Return a broker that has three logs to recover."""

    async def create(client: BrokerClient) -> None:
        topic = CreatableTopic(name="t", num_partitions=3, replication_factor=1)
        assert (await client.request(CreateTopicsRequest(topics=[topic]), 7)).topics[0].error_code == 0

    with_broker(create, data)
    (data / CLEAN_SHUTDOWN).unlink()
    configs = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(data),
        "num.recovery.threads.per.data.dir": 1,
        **{name.replace("_", "."): value for name, value in LISTENER.items()},
    }
    return BrokerNode(BrokerConfig(configs))


async def until_reported(node: BrokerNode, words: str) -> None:
    async with asyncio.timeout(20):
        while node.http_url is None or words not in (await get(url_of(node), "/readyz")).text:
            await asyncio.sleep(0.01)


def test_broker_that_recovers_its_logs_is_healthy_and_reports_its_progress(
    tmp_path: Path, opening: threading.Event
) -> None:
    async def test() -> None:
        node = killed_node
        starting = asyncio.create_task(node.start())
        await until_reported(node, f"the broker is starting: recovering the logs of {tmp_path}: 1 of 3\n")
        assert (await get(url_of(node), "/healthz")).text == "ok\n"
        page = await get(url_of(node), "/metrics")
        assert (page.status, page.text[:33]) == (503, "the broker is starting: recoverin")
        opening.set()
        await starting
        assert (await get(url_of(node), "/readyz")).text == "ready\n"
        await node.stop()

    killed_node = killed(tmp_path)
    asyncio.run(test())


def test_broker_that_is_stopped_while_it_recovers_logs_recovers_them_at_the_next_start(
    tmp_path: Path, opening: threading.Event
) -> None:
    async def test() -> None:
        starting = asyncio.create_task(killed_node.start())
        await until_reported(killed_node, "1 of 3")
        threading.Timer(0.2, opening.set).start()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    async def recovered(client: BrokerClient) -> None:
        assert len(client.context.partitions) == 3

    killed_node = killed(tmp_path)
    asyncio.run(test())
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    with_broker(recovered, tmp_path)
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


def test_broker_in_its_controlled_shutdown_reports_that_it_waits_for_the_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def controlled_shutdown(self: BrokerLifecycle) -> None:
        await asyncio.to_thread(proceed.wait, 20)

    async def test() -> None:
        node = killed_node
        await node.start()
        stopping = asyncio.create_task(node.stop())
        await until_reported(node, "the broker is stopping: moving leaders to other brokers for ")
        proceed.set()
        await stopping

    killed_node = killed(tmp_path)
    proceed = threading.Event()
    monkeypatch.setattr(BrokerLifecycle, "controlled_shutdown", controlled_shutdown)
    asyncio.run(test())


def test_sigterm_ends_a_broker_that_waits_for_zookeeper(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configs = {
            "zookeeper.connect": f"127.0.0.1:{silent.getsockname()[1]}",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": tmp_path / "data",
        }
        overrides = [f"--override={name}={value}" for name, value in configs.items()]
        command = [sys.executable, "-m", "ottla", "broker", *overrides]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ}) as process:
            assert process.stderr is not None
            silent.accept()
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            output = process.stderr.read()
            assert process.wait(20) == 0
            assert time.monotonic() - began < 10, "kazoo waits for 18 s"
        assert "A signal stopped the broker during its start (stage: opening the metadata store)" in output

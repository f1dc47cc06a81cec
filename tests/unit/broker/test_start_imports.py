"""The modules that a standalone broker loads before its first request, which cost most of its start time and memory."""

import subprocess
import sys
from pathlib import Path

MAX_MODULES = 168
"""Modules of Ottla, packages included. A start with more is slower: import lazily what only some brokers need."""
NOT_NEEDED = (
    "ottla.broker.handlers",  # loaded with the first request of their API
    "ottla.broker.security.sasl",
    "ottla.cli.framework.admin_command",
    "ottla.client",
    "ottla.cluster.broker.acl_store",
    "ottla.cluster.migration.kraft",
    "ottla.cluster.store.zookeeper_store",
    "ottla.coordinator",  # loaded with the first partition of an internal topic, or the first request
    "ottla.metrics",
    "ottla.net.client",
    "ottla.net.server.listener_ssl",
    "ottla.net.server.tls_connection",
    "ottla.remote_log",
    "ottla.replication.fetcher",
    "ottla.spark",
    "ottla.storage.compaction.cleaner",
    "cramjam",
    "difflib",
    "email",
    "encodings.idna",
    "http",
    "importlib.metadata",
    "kazoo",
    "multiprocessing",
    "numpy",
    "obstore",
    "pyarrow",
    "re2",
    "xml",
)
"""Modules, or beginnings of their names."""
START = """
import asyncio, sys
import ottla.cli.broker, ottla.cli.main, ottla.broker.node, ottla.broker.node_configs
from ottla.broker.server.broker_node import BrokerNode
from ottla.config.broker.broker_config import BrokerConfig

async def start():
    configs = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": sys.argv[1]}
    async with BrokerNode(BrokerConfig.from_kafka(configs)):
        print(*sys.modules)

asyncio.run(start())
"""


def test_start_of_a_standalone_broker_loads_only_what_every_broker_needs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", START, str(tmp_path)]
    modules = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split()
    assert "ottla.broker.dispatch" in modules
    assert [name for name in modules if name.startswith(NOT_NEEDED)] == []
    own = [name for name in modules if name.partition(".")[0] == "ottla"]
    assert len(own) <= MAX_MODULES
    messages = [name for name in own if name.startswith("ottla.protocol.messages.")]
    assert messages == ["ottla.protocol.messages.fetch"], "an API's messages are loaded with its first request"

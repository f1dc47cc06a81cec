"""The configs of the brokers of one node, derived from one properties file. `ottla.brokers` is the number of brokers.

| config | value for broker N, counted from 0 |
|---|---|
| `broker.id` | the configured id, by default 0, plus N |
| `listeners`, `advertised.listeners`, `ottla.http.listener` | each port plus N; port 0 stays 0 |
| `log.dirs` | a directory `broker-ID` below each |
| `broker.rack` | the machine's name, so that replicas prefer other machines |
| `ottla.metadata.dir` | `metadata` below the first log directory, unless `zookeeper.connect` is set |
| replication factors of internal topics | the number of brokers, at most 3, unless `zookeeper.connect` is set |
| `min.isr` of internal topics | the number of brokers, at most 2, unless `zookeeper.connect` is set |

The last four rows apply to configs that the file does not set.

`ottla.broker.ID.NAME=VALUE` sets a config of the broker with this id, such as a port other than the derived one.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.broker.listener_config import Endpoint
from ottla.config.broker.remote_log import without_rlmm_prefix
from ottla.errors import ConfigurationError, StartupError

COUNT: Final = "ottla.brokers"
OWN_PREFIX: Final = "ottla.broker."
METADATA: Final = "metadata"
STORE_FILE: Final = "registry.sqlite"
MOST_REPLICAS: Final = 3
INTERNAL_TOPICS: Final = (
    "offsets.topic",
    "transaction.state.log",
    "share.coordinator.state.topic",
    "remote.log.metadata.topic",
)
MOST_BROKERS: Final = 256


def broker_count(configs: Mapping[str, Any]) -> int:
    """Return the number of brokers of a node: `ottla.brokers`, by default 1; 0 means one per CPU core available to the
    process.
    """
    count: int = BrokerConfig.options[COUNT].read(configs.get(COUNT, 1))
    return count or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))


def node_configs(configs: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Return the configs of each broker of a node.

    Raises ConfigurationError for invalid configs and for listeners with the same host and port, and StartupError if a
    log directory has the data of a single broker.
    """
    common = without_rlmm_prefix({k: v for k, v in configs.items() if not k.startswith(OWN_PREFIX)})
    base = BrokerConfig.from_kafka(common)
    brokers = [_configs(common, base, count, index) | _own(configs, base, index) for index in range(count)]
    _check_own(configs, base, count)
    _check_ports(BrokerConfig(broker) for broker in brokers)
    for directory in base.data_dirs:
        if (Path(directory) / "meta.properties").exists():
            raise StartupError(
                f"log.dirs: {directory} has the data of a single broker. To make it the first one of {count}, move the "
                f"content to {directory}/broker-{max(base.id, 0)}, and its {STORE_FILE} to {directory}/{METADATA}"
            )
    return brokers


def check_single(configs: Mapping[str, Any]) -> None:
    """Raise StartupError if the first log directory of a single broker has the metadata store of several brokers."""
    directory = BrokerConfig(configs).data_dirs[0]
    if (Path(directory) / METADATA / STORE_FILE).exists():
        raise StartupError(f"log.dirs: {directory} has the data of a node of several brokers; start it with --brokers")


def _configs(common: Mapping[str, Any], base: BrokerConfig, count: int, index: int) -> dict[str, Any]:
    configs = {**common, COUNT: "1", "listeners": _shifted(base.listeners, index)}
    configs.pop("node.id", None)
    configs.pop("log.dir", None)
    if base.advertised_listeners:
        configs["advertised.listeners"] = _shifted(base.advertised_listeners, index)
    if base.ottla_http_listener is not None:
        endpoint = base.ottla_http_listener
        configs["ottla.http.listener"] = _shifted([endpoint], index, "ottla.http.listener").replace(
            "HTTP://", "https://" if endpoint.protocol == "SSL" else ""
        )
    broker_id = max(base.id, 0) + index
    configs["broker.id"] = str(broker_id)
    configs["log.dirs"] = ",".join(f"{directory}/broker-{broker_id}" for directory in base.data_dirs)
    configs.setdefault("broker.rack", socket.gethostname())
    if base.zookeeper_connect is None:
        configs.setdefault("ottla.metadata.dir", f"{base.data_dirs[0]}/{METADATA}")
        replicas = min(MOST_REPLICAS, count)
        for topic in INTERNAL_TOPICS:
            configs.setdefault(f"{topic}.replication.factor", str(replicas))
            if topic != "offsets.topic":
                configs.setdefault(f"{topic}.min.isr", str(min(2, replicas)))
    return configs


def _shifted(endpoints: Iterable[Endpoint], by: int, config: str = "listeners") -> str:
    """Return the endpoints with `by` added to each port. Port 0, which means any free port, stays 0.

    Raises ConfigurationError if a port would be above 65535.
    """
    shifted = [endpoint._replace(port=endpoint.port and endpoint.port + by) for endpoint in endpoints]
    for endpoint in shifted:
        if endpoint.port > 65535:
            raise ConfigurationError(f"{config}: {endpoint}: ports end at 65535; choose a lower first port")
    return ",".join(map(str, shifted))


def _own(configs: Mapping[str, Any], base: BrokerConfig, index: int) -> dict[str, Any]:
    prefix = f"{OWN_PREFIX}{max(base.id, 0) + index}."
    return without_rlmm_prefix({k.removeprefix(prefix): v for k, v in configs.items() if k.startswith(prefix)})


def _check_own(configs: Mapping[str, Any], base: BrokerConfig, count: int) -> None:
    first = max(base.id, 0)
    ids = {str(broker_id) for broker_id in range(first, first + count)}
    for name in configs:
        if name.startswith(OWN_PREFIX) and name.removeprefix(OWN_PREFIX).partition(".")[0] not in ids:
            raise ConfigurationError(f"{name}: no such broker; the node has brokers {first} to {first + count - 1}")


def _check_ports(brokers: Iterable[BrokerConfig]) -> None:
    used = Counter((endpoint.host, endpoint.port) for broker in brokers for endpoint in broker.listeners)
    for (host, port), times in used.items():
        if port and times > 1:
            raise ConfigurationError(
                f"listeners: {host}:{port} would be used by {times} listeners of the node's brokers, whose ports count "
                f"up; leave gaps between listeners, or set {OWN_PREFIX}ID.listeners"
            )

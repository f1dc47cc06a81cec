"""Broker configs in environment variables, as Kafka's container image takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PREFIX: Final = "KAFKA_"
OF_THE_JVM: Final = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    }
)
"""Variables of Kafka's scripts and of its image that are not configs."""


def configs_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the configs that the variables `KAFKA_…` set: `KAFKA_LOG_DIRS` is `log.dirs`. Two underscores stand for
    `_`, three for `-`.

    Equivalent of Kafka's `KafkaDockerWrapper`.
    """
    return {
        _config_name(name.removeprefix(PREFIX)): value.strip()
        for name, value in environment.items()
        if name.startswith(PREFIX) and name not in OF_THE_JVM and not _is_service_link(name, value)
    }


def _is_service_link(name: str, value: str) -> bool:
    """Return whether a variable is one of those that Kubernetes sets for a Service with the name `kafka`."""
    return name.startswith(("KAFKA_SERVICE_", "KAFKA_PORT_")) or (name == "KAFKA_PORT" and "://" in value)


def _config_name(name: str) -> str:
    words = (part.replace("__", "\0").replace("_", ".").replace("\0", "_") for part in name.lower().split("___"))
    return "-".join(words)

"""What ZooKeeper says of brokers and partitions, which is the truth of the cluster."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from tests.chaos.cluster import BROKERS

CONNECT_SECONDS = 30.0
QUIET = logging.getLogger("tests.chaos.kazoo")
QUIET.setLevel(logging.CRITICAL)  # ZooKeeper goes away on purpose
IDS, TOPICS, CONTROLLER = "/brokers/ids", "/brokers/topics", "/controller"


class Tree:
    """A session with ZooKeeper, past all links."""

    def __init__(self, connect: str) -> None:
        from kazoo.client import KazooClient
        from kazoo.retry import KazooRetry

        for_ever = KazooRetry(max_tries=-1, max_delay=0.5)
        self._retry = KazooRetry(max_tries=-1, max_delay=0.5, deadline=CONNECT_SECONDS)
        self._client = KazooClient(connect, timeout=10.0, connection_retry=for_ever, logger=QUIET)
        self._client.start(CONNECT_SECONDS)

    def missing(self) -> list[str]:
        """Brokers that are not registered, and partitions without a leader or with a replica that is not in sync."""
        from kazoo.exceptions import KazooException

        try:
            there = {int(broker) for broker in self._client.get_children(IDS)}
            return [f"broker {broker}" for broker in BROKERS if broker not in there] + self._partitions()
        except KazooException as error:
            return [f"ZooKeeper: {error!r}"]

    def _partitions(self) -> list[str]:
        result = []
        for topic in self._client.get_children(TOPICS):
            for partition, replicas in self._read(f"{TOPICS}/{topic}")["partitions"].items():
                state = self._read(f"{TOPICS}/{topic}/partitions/{partition}/state")
                if state["leader"] < 0 or set(state["isr"]) != set(replicas):
                    result.append(f"{topic}-{partition} (leader {state['leader']}, ISR {state['isr']})")
        return result

    def controller(self) -> int:
        """The active controller; -1 for none."""
        from kazoo.exceptions import KazooException

        try:
            return int(self._read(CONTROLLER)["brokerid"])
        except KazooException:
            return -1

    def leaders(self, topic: str) -> Mapping[int, int]:
        """Leader by partition."""
        partitions = self._retry(self._client.get_children, f"{TOPICS}/{topic}/partitions")
        return {int(p): self._read(f"{TOPICS}/{topic}/partitions/{p}/state")["leader"] for p in partitions}

    def _read(self, path: str) -> Any:
        value, _ = self._retry(self._client.get, path)
        return json.loads(value)

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()

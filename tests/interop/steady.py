"""A topic that is written to continuously, for tests of groups that rebalance while they read."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator

from ottla import KafkaAdminClient, KafkaProducer
from ottla.client.admin.topics.topics import NewTopic


def new_topic(bootstrap: str, partitions: int, prefix: str = "steady") -> str:
    """Create a topic, and return its name."""
    name = f"{prefix}-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions, 1)])
    return name


def number(i: int) -> bytes:
    """Return the i-th value, a decimal number."""
    return b"%d" % i


@contextlib.contextmanager
def sending(
    bootstrap: str, topic: str, partitions: int, pause: float, value_of: Callable[[int], bytes] = number
) -> Iterator[list[bytes]]:
    """Send values to all partitions in turn, `pause` seconds apart, until the end of the block; yield them."""
    values: list[bytes] = []
    stop = threading.Event()

    def send() -> None:
        with KafkaProducer(bootstrap_servers=bootstrap) as producer:
            while not stop.wait(pause):
                value = value_of(len(values))
                producer.send(topic, value, partition=len(values) % partitions)
                values.append(value)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield values
    finally:
        stop.set()
        thread.join()

"""A consumer per thread, from the documentation of Java's consumer, and wakeup() to stop one from another thread.

A consumer belongs to one thread. wakeup() is the only method that other threads may call.
"""

import sys
import threading
from collections.abc import Callable

from ottla import ConsumerRecord, KafkaConsumer
from ottla.errors import WakeupError


class KafkaConsumerRunner(threading.Thread):
    """Reads in its own thread until `shutdown`."""

    def __init__(self, servers: str, topic: str, handle: Callable[[ConsumerRecord], None]) -> None:
        super().__init__(name="consumer-runner")
        self._closed = threading.Event()
        self._topic = topic
        self._process = handle
        self._consumer = KafkaConsumer(
            bootstrap_servers=servers, group_id="threads", auto_offset_reset="earliest", client_id="runner"
        )

    def run(self) -> None:
        """Read and process records."""
        try:
            self._consumer.subscribe([self._topic])
            while not self._closed.is_set():
                for records in self._consumer.poll(timeout_ms=10_000).values():
                    for record in records:
                        self._process(record)
        except WakeupError:
            if not self._closed.is_set():  # only expected when we are closing
                raise
        finally:
            self._consumer.close()

    def shutdown(self) -> None:
        """Stop. May be called from any thread."""
        self._closed.set()
        self._consumer.wakeup()


def main(servers: str = "localhost:9092", topic: str = "my-topic", threads: int = 2) -> None:
    """Read with several threads until Enter is pressed."""
    runners = [KafkaConsumerRunner(servers, topic, print) for _ in range(threads)]
    for runner in runners:
        runner.start()
    input()
    for runner in runners:
        runner.shutdown()
    for runner in runners:
        runner.join()


if __name__ == "__main__":
    main(*sys.argv[1:3])

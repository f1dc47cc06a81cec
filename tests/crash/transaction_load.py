"""A transactional producer in its own process: prints the result of each transaction, until it is killed.

It is a process, since librdkafka may wait forever for a broker that was killed.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

RECORDS = 12
"""Records of each transaction, spread over all partitions."""
PARTITIONS = 3
TOPIC = "kept"
SECONDS = 20.0


class Load:
    """Runs transactions from number `first` on, and aborts every third."""

    def __init__(self, bootstrap: str, name: str, first: int) -> None:
        self.name = name
        self.last = first - 1
        self.ended: dict[str, set[int]] = {"committed": set(), "aborted": set()}
        self._process = subprocess.Popen(
            [sys.executable, __file__, bootstrap, name, str(first)], stdout=subprocess.PIPE, text=True
        )

    def wait_for_commits(self, count: int) -> None:
        """Read the output until `count` transactions are committed."""
        assert self._process.stdout is not None
        while len(self.ended["committed"]) < count:
            line = self._process.stdout.readline()
            assert line, f"{self.name} has given up"
            self._parse(line)

    def kill(self) -> None:
        """Kill the process, and read the rest of its output."""
        self._process.kill()
        output, _ = self._process.communicate()
        for line in output.splitlines():
            self._parse(line)

    def _parse(self, line: str) -> None:
        how, number = line.split()
        self.last = int(number)
        if how in self.ended:
            self.ended[how].add(self.last)


def run(bootstrap: str, name: str, first: int) -> None:
    import confluent_kafka

    options = {"bootstrap.servers": bootstrap, "log_level": 0}
    member = confluent_kafka.Consumer({**options, "group.id": name})
    group = member.consumer_group_metadata()
    member.close()
    producer: Any = confluent_kafka.Producer({**options, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(SECONDS)
    number = first
    while True:
        print("begun", number, flush=True)
        producer.begin_transaction()
        for i in range(RECORDS):
            producer.produce(TOPIC, f"{name} {number} {i}".encode(), partition=i % PARTITIONS)
        offsets = [confluent_kafka.TopicPartition(TOPIC, 0, number + 1)]
        producer.send_offsets_to_transaction(offsets, group, SECONDS)
        if number % 3:
            producer.commit_transaction(SECONDS)
            print("committed", number, flush=True)
        else:
            producer.flush(SECONDS)
            producer.abort_transaction(SECONDS)
            print("aborted", number, flush=True)
        number += 1


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]))

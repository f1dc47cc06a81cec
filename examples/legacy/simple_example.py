"""The SimpleConsumer example of Kafka 0.8: find the leader of a partition, read it, and find the new one when it moves.

    python examples/legacy/simple_example.py 10 page_visits 0 localhost 9092

What a consumer of today does by itself is spelled out here: metadata, leaders, offsets, errors.
"""

import sys
import time
from collections.abc import Sequence

from ottla.errors import KafkaError
from ottla.legacy import (
    EARLIEST_TIME,
    LATEST_TIME,
    ErrorMapping,
    FetchRequestBuilder,
    OffsetRequest,
    PartitionMetadata,
    PartitionOffsetRequestInfo,
    SimpleConsumer,
    TopicMetadataRequest,
    TopicPartition,
)

Address = tuple[str, int]

FETCH_SIZE = 100_000
MAX_ERRORS = 5
LEADER_TRIES = 3
LEADER_PAUSE_SECONDS = 1.0


class SimpleExample:
    """Reads one partition. `replicas` are the brokers to ask when the leader is gone."""

    def __init__(self) -> None:
        self.replicas: list[Address] = []

    def run(self, max_reads: int, topic: str, partition: int, seeds: Sequence[Address]) -> None:
        """Print this many messages."""
        leader = self.find_leader(seeds, topic, partition)
        if leader is None:
            raise SystemExit(f"no leader of {topic}-{partition} is known")
        consumer = self.connected(leader, topic, partition)
        offset = last_offset(consumer, topic, partition, EARLIEST_TIME)
        failures = 0
        while max_reads > 0:
            response = consumer.fetch(
                FetchRequestBuilder()
                .add_fetch(topic, partition, offset, FETCH_SIZE)
                .max_wait(1000)
                .min_bytes(1)
                .build()
            )
            if response.has_error:
                failures += 1
                code = response.error_code(topic, partition)
                print(f"error {code} from {leader}", file=sys.stderr)
                if failures > MAX_ERRORS:
                    break
                if code == ErrorMapping.OFFSET_OUT_OF_RANGE:
                    offset = last_offset(consumer, topic, partition, LATEST_TIME)
                    continue
                consumer.close()
                leader = self.find_new_leader(leader, topic, partition)
                consumer = self.connected(leader, topic, partition)
                continue
            failures = 0
            for found in response.message_set(topic, partition):
                if found.offset < offset:
                    continue  # a compressed set comes whole
                offset = found.next_offset
                print(f"{found.offset}: {(found.message.value or b'').decode()}")
                max_reads -= 1
                if not max_reads:
                    break
        consumer.close()

    def connected(self, leader: Address, topic: str, partition: int) -> SimpleConsumer:
        """A consumer of the leader."""
        return SimpleConsumer(
            *leader, so_timeout=100_000, buffer_size=64 * 1024, client_id=f"Client_{topic}_{partition}"
        )

    def find_new_leader(self, old: Address, topic: str, partition: int) -> Address:
        """The leader after an election, which takes a moment. The old one is believed from the second try on."""
        for number in range(LEADER_TRIES):
            leader = self.find_leader(self.replicas, topic, partition)
            if leader is not None and (leader != old or number > 0):
                return leader
            time.sleep(LEADER_PAUSE_SECONDS)
        raise SystemExit("no new leader was found after the broker's failure")

    def find_leader(self, seeds: Sequence[Address], topic: str, partition: int) -> Address | None:
        """The leader's address, from the first broker that knows it."""
        for seed in seeds:
            found = partition_metadata(seed, topic, partition)
            if found is not None and found.leader is not None:
                self.replicas = [(node.host, node.port) for node in found.replicas]
                return found.leader.host, found.leader.port
        return None


def partition_metadata(seed: Address, topic: str, partition: int) -> PartitionMetadata | None:
    """What a broker knows of a partition; None when it cannot be asked."""
    try:
        with SimpleConsumer(*seed, client_id="leaderLookup") as consumer:
            (told,) = consumer.send(TopicMetadataRequest([topic])).topics_metadata
            return next((p for p in told.partitions_metadata if p.partition_id == partition), None)
    except KafkaError as error:
        print(f"{seed[0]}:{seed[1]}: {error}", file=sys.stderr)
        return None


def last_offset(consumer: SimpleConsumer, topic: str, partition: int, when: int) -> int:
    """The offset to begin at: the first one, or the one behind the last message."""
    place = TopicPartition(topic, partition)
    response = consumer.get_offsets_before(OffsetRequest({place: PartitionOffsetRequestInfo(when, 1)}))
    ErrorMapping.maybe_throw(response.error_code(topic, partition))
    return response.offsets(topic, partition)[0]


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit("usage: simple_example.py MAX_READS TOPIC PARTITION SEED_HOST[,…] PORT")
    hosts, port = sys.argv[4].split(","), int(sys.argv[5])
    SimpleExample().run(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), [(host, port) for host in hosts])

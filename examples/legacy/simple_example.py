"""The SimpleConsumer example of Kafka 0.8: find the leader of a partition, read from it, and follow leader changes.

    python examples/legacy/simple_example.py 10 page_visits 0 localhost 9092

It shows what today's consumers do internally: metadata, leaders, offsets, errors.
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
    FetchResponse,
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
    """Reads one partition. `replicas`: the brokers that can name a new leader if the leader fails."""

    def __init__(self, topic: str, partition: int, seeds: Sequence[Address]) -> None:
        self.topic = topic
        self.partition = partition
        self.seeds = seeds
        self.replicas: list[Address] = []

    def run(self, max_reads: int) -> None:
        """Print a number of messages."""
        self.connect(self.find_leader(self.seeds))
        self.offset = last_offset(self.consumer, self.topic, self.partition, EARLIEST_TIME)
        failures = 0
        while max_reads > 0 and failures <= MAX_ERRORS:
            response = self.fetch()
            if response.has_error:
                failures += 1
                self.recover(response.error_code(self.topic, self.partition))
            else:
                failures = 0
                max_reads -= self.show(response, max_reads)
        self.consumer.close()

    def connect(self, leader: Address | None) -> None:
        """Connect to a broker."""
        if leader is None:
            raise SystemExit(f"no leader of {self.topic}-{self.partition} is known")
        self.leader = leader
        name = f"Client_{self.topic}_{self.partition}"
        self.consumer = SimpleConsumer(*leader, so_timeout=100_000, buffer_size=64 * 1024, client_id=name)

    def fetch(self) -> FetchResponse:
        """Return the next messages. Waits for a second if there are none."""
        builder = FetchRequestBuilder().add_fetch(self.topic, self.partition, self.offset, FETCH_SIZE)
        return self.consumer.fetch(builder.max_wait(1000).min_bytes(1).build())

    def show(self, response: FetchResponse, at_most: int) -> int:
        """Print messages, and return their number."""
        messages = response.message_set(self.topic, self.partition)
        unread = [message for message in messages if message.offset >= self.offset]  # a compressed set comes whole
        for message in unread[:at_most]:
            print(f"{message.offset}: {(message.message.value or b'').decode()}")
            self.offset = message.next_offset
        return min(len(unread), at_most)

    def recover(self, code: int) -> None:
        """Continue at a valid offset, or at the new leader."""
        print(f"error {code} from {self.leader}", file=sys.stderr)
        if code == ErrorMapping.OFFSET_OUT_OF_RANGE:
            self.offset = last_offset(self.consumer, self.topic, self.partition, LATEST_TIME)
        else:
            self.consumer.close()
            self.connect(self.find_new_leader(self.leader))

    def find_new_leader(self, old: Address) -> Address | None:
        """Wait for an election, and return the leader. From the second attempt on, it may be the old one."""
        for number in range(LEADER_TRIES):
            leader = self.find_leader(self.replicas)
            if leader is not None and (leader != old or number > 0):
                return leader
            time.sleep(LEADER_PAUSE_SECONDS)
        return None

    def find_leader(self, seeds: Sequence[Address]) -> Address | None:
        """Return the leader's address, from the first broker that knows it."""
        for seed in seeds:
            metadata = partition_metadata(seed, self.topic, self.partition)
            if metadata is not None and metadata.leader is not None:
                self.replicas = [(node.host, node.port) for node in metadata.replicas]
                return metadata.leader.host, metadata.leader.port
        return None


def partition_metadata(seed: Address, topic: str, partition: int) -> PartitionMetadata | None:
    """Return a broker's metadata of a partition; None if the broker is not reachable."""
    try:
        with SimpleConsumer(*seed, client_id="leaderLookup") as consumer:
            (topic_metadata,) = consumer.send(TopicMetadataRequest([topic])).topics_metadata
            return next((p for p in topic_metadata.partitions_metadata if p.partition_id == partition), None)
    except KafkaError as error:
        print(f"{seed[0]}:{seed[1]}: {error}", file=sys.stderr)
        return None


def last_offset(consumer: SimpleConsumer, topic: str, partition: int, when: int) -> int:
    """Return the offset to start at: the first one, or the one after the last message."""
    place = TopicPartition(topic, partition)
    response = consumer.get_offsets_before(OffsetRequest({place: PartitionOffsetRequestInfo(when, 1)}))
    ErrorMapping.maybe_throw(response.error_code(topic, partition))
    return response.offsets(topic, partition)[0]


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit("usage: simple_example.py MAX_READS TOPIC PARTITION SEED_HOST[,…] PORT")
    hosts, port = sys.argv[4].split(","), int(sys.argv[5])
    SimpleExample(sys.argv[2], int(sys.argv[3]), [(host, port) for host in hosts]).run(int(sys.argv[1]))

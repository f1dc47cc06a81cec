"""Exactly once, with a database: results and offsets are stored in one transaction.

Kafka's committed offsets are not used: auto commit is off, and when a partition is assigned to this member, its
listener reads the offset from the database and seeks to it. If the program is killed at any moment, either the whole
batch was counted and the offset has moved, or neither.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from command_line import end_at_sigterm, group_options, parser
from visit_store import TakenOverError, VisitStore

from ottla import ConsumerRebalanceListener, ConsumerRecord, KafkaConsumer, TopicPartition


class Progress(ConsumerRebalanceListener):
    """Tracks the next offset of each partition. New partitions of this member start at the offset in the database."""

    def __init__(self, consumer: KafkaConsumer, store: VisitStore) -> None:
        self.consumer = consumer
        self.store = store
        self.counted: dict[TopicPartition, int] = {}

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Seek to the offsets in the database, which may have been written by another member."""
        for tp in assigned:
            self.resume(tp)

    def resume(self, tp: TopicPartition) -> None:
        """Continue at the offset in the database."""
        self.counted[tp] = self.store.next_offset(tp)
        self.consumer.seek(tp, self.counted[tp])

    def count(self, tp: TopicPartition, records: list[ConsumerRecord]) -> None:
        """Count a batch, in one transaction with its offset. Raises TakenOverError if another member has done so."""
        addresses = [record.value.decode().rpartition(",")[2] for record in records]
        # From the stored offset, not from that of the first record: offsets may have gaps (markers, compaction).
        next_offset = records[-1].offset + 1
        self.store.add(tp, addresses, self.counted[tp], next_offset)
        self.counted[tp] = next_offset


def main() -> None:
    """Count visits per address; a record's value is `<millis>,<site>,<address>`."""
    arguments = parser(__doc__)
    arguments.add_argument("--database", required=True, help="sqlite:PATH, postgresql://… or mysql://…")
    options = arguments.parse_args()
    end_at_sigterm()
    store = VisitStore(options.database)
    with KafkaConsumer(**group_options(options), enable_auto_commit=False) as consumer:
        progress = Progress(consumer, store)
        consumer.subscribe([options.topic], listener=progress)
        while True:
            for tp, records in consumer.poll(timeout_ms=1000).items():
                try:
                    progress.count(tp, records)
                except TakenOverError as error:
                    # Nothing was counted. If this member still owns the partition, it resumes at the stored offset.
                    print(error, file=sys.stderr)
                    if tp in consumer.assignment():
                        progress.resume(tp)


if __name__ == "__main__":
    main()

"""Exactly once, with a database: a result and the offset behind it are stored in one transaction.

Kafka's own offsets are not used: auto commit is off, and whenever this member is given a partition, its listener asks
the database how far it was read, and seeks there. Kill the program at any moment: either the whole batch was counted
and the offset has moved, or neither.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from command_line import end_at_sigterm, group_options, parser
from visit_store import TakenOverError, VisitStore

from ottla import ConsumerRebalanceListener, ConsumerRecord, KafkaConsumer, TopicPartition


class Progress(ConsumerRebalanceListener):
    """How far each partition was counted; those that are new to this member are sought to where the database is."""

    def __init__(self, consumer: KafkaConsumer, store: VisitStore) -> None:
        self.consumer = consumer
        self.store = store
        self.counted: dict[TopicPartition, int] = {}

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Seek to the offsets in the database, which may have been written by another member."""
        for tp in assigned:
            self.go_on(tp)

    def go_on(self, tp: TopicPartition) -> None:
        """Read on where the database is."""
        self.counted[tp] = self.store.next_offset(tp)
        self.consumer.seek(tp, self.counted[tp])

    def count(self, tp: TopicPartition, records: list[ConsumerRecord]) -> None:
        """Count a batch, in one transaction with its offset. TakenOverError when another member has done so."""
        addresses = [record.value.decode().rpartition(",")[2] for record in records]
        # From where we were, not from the first record's offset: offsets may have gaps (markers, compaction).
        behind = records[-1].offset + 1
        self.store.add(tp, addresses, self.counted[tp], behind)
        self.counted[tp] = behind


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
                    # Nothing was counted. If the partition is still ours, it goes on where the database is.
                    print(error, file=sys.stderr)
                    if tp in consumer.assignment():
                        progress.go_on(tp)


if __name__ == "__main__":
    main()

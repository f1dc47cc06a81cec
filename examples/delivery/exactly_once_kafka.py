"""Exactly once, within Kafka: input offsets and output records in one transaction (KIP-98, KIP-447).

Reads a topic, writes an upper-case copy of each record to another one with the same key, and commits the offsets of the
first in the same transaction as the records of the second. Consumers with isolation.level=read_committed read each
record once, no matter how often the program was killed.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from command_line import end_at_sigterm, group_options, parser

from ottla import KafkaConsumer, KafkaProducer, OffsetAndMetadata
from ottla.errors import KafkaError, ProducerFencedError


def main() -> None:
    """Copy until another producer takes over the transactional id."""
    arguments = parser(__doc__)
    arguments.add_argument("--to", required=True, help="the topic to write")
    arguments.add_argument("--transactional-id", required=True, help="a different one for each program of the group")
    options = arguments.parse_args()
    end_at_sigterm()
    isolated = {"enable_auto_commit": False, "isolation_level": "read_committed"}
    with (
        KafkaConsumer(options.topic, **group_options(options), **isolated) as consumer,
        KafkaProducer(
            bootstrap_servers=options.bootstrap_server, transactional_id=options.transactional_id
        ) as producer,
    ):
        producer.init_transactions()  # aborts an open transaction of an earlier program with this id
        while True:
            polled = consumer.poll(timeout_ms=1000)
            if not polled:
                continue
            try:
                with producer.transaction():
                    for records in polled.values():
                        for record in records:
                            producer.send(options.to, record.value.upper(), key=record.key)
                    next_offsets = {tp: OffsetAndMetadata(records[-1].offset + 1) for tp, records in polled.items()}
                    producer.send_offsets_to_transaction(next_offsets, consumer.group_metadata())
            except ProducerFencedError:
                raise
            except KafkaError as error:
                # Aborted, for example after a rebalance. Partitions that are still assigned are read again from their
                # committed offsets.
                print(f"aborted: {error}", file=sys.stderr)
                for tp in polled.keys() & consumer.assignment():
                    consumer.seek(tp, consumer.committed(tp) or 0)


if __name__ == "__main__":
    main()

"""Exactly once, within Kafka: what was read, and what was made of it, in one transaction (KIP-98, KIP-447).

Reads a topic, writes an upper-case copy of each record to another one with the same key, and commits the offsets of the
first in the same transaction as the records of the second. Readers with isolation.level=read_committed see each record
once, however often the program was killed.
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
    arguments.add_argument("--transactional-id", required=True, help="another one for each program of the group")
    options = arguments.parse_args()
    end_at_sigterm()
    reading = {"enable_auto_commit": False, "isolation_level": "read_committed"}
    with (
        KafkaConsumer(options.topic, **group_options(options), **reading) as consumer,
        KafkaProducer(
            bootstrap_servers=options.bootstrap_server, transactional_id=options.transactional_id
        ) as producer,
    ):
        producer.init_transactions()  # whatever an earlier program of this id left open is rolled back
        while True:
            polled = consumer.poll(timeout_ms=1000)
            if not polled:
                continue
            try:
                with producer.transaction():
                    for records in polled.values():
                        for record in records:
                            producer.send(options.to, record.value.upper(), key=record.key)
                    behind = {tp: OffsetAndMetadata(records[-1].offset + 1) for tp, records in polled.items()}
                    producer.send_offsets_to_transaction(behind, consumer.group_metadata())
            except ProducerFencedError:
                raise
            except KafkaError as error:
                # Rolled back, such as after a rebalance. What is still ours is read again from its committed offset.
                print(f"rolled back: {error}", file=sys.stderr)
                for tp in polled.keys() & consumer.assignment():
                    consumer.seek(tp, consumer.committed(tp) or 0)


if __name__ == "__main__":
    main()

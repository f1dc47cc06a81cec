"""Create a topic with the flags of Kafka 0.8's kafka-create-topic.sh."""

from __future__ import annotations

import argparse
import sys

from ottla.cli.framework.connection import add_connection, client_options
from ottla.cli.topics.topics import assignment
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.topics import NewTopic
from ottla.errors import KafkaError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla create-topic`."""
    add_connection(parser, zookeeper=True)
    parser.add_argument("--topic", required=True, help="the topic to create")
    parser.add_argument("--replica", type=int, default=1, help="number of replicas of each partition (1)")
    parser.add_argument("--partition", type=int, default=1, help="number of partitions (1)")
    parser.add_argument(
        "--replica-assignment-list", metavar="B:B,…", help="brokers by hand: partitions with commas, instead of numbers"
    )


def run(args: argparse.Namespace) -> int:
    """Do it; 1 with one line where the broker refuses."""
    try:
        by_hand = assignment(args.replica_assignment_list) if args.replica_assignment_list else None
        topic = NewTopic(args.topic, args.partition, args.replica, by_hand)
        with KafkaAdminClient(client_options(args)) as admin:
            admin.create_topics([topic])
    except KafkaError as error:
        print(f"creation failed because of {error}", file=sys.stderr)
        return 1
    print("creation succeeded!")
    return 0

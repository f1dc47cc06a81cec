"""Create a topic, with the options of Kafka 0.8's kafka-create-topic.sh."""

from __future__ import annotations

import argparse

from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import Option
from ottla.cli.framework.output import Output
from ottla.cli.topics.topics import parse_assignment
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.topics.topics import NewTopic

ERROR = "creation failed because of {}"


def run(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> None:
    """Create the topic of `--topic`, and print a message on success."""
    assignment = parse_assignment(args.replica_assignment_list) if args.replica_assignment_list else None
    admin.create_topics([NewTopic(args.topic, args.partition, args.replica, assignment)])
    output.text("creation succeeded!")


COMMAND = AdminCommand(
    run=run,
    error=ERROR,
    options=(
        *connection(zookeeper=True),
        Option("--topic", "name of the topic to create", required=True),
        Option("--replica", "number of replicas of each partition", int, default=1),
        Option("--partition", "number of partitions of the topic", int, default=1),
        Option(
            "--replica-assignment-list B:B,…",
            "broker ids of each partition's replicas, in place of --replica and --partition: colons separate replicas, "
            "commas separate partitions",
        ),
    ),
)

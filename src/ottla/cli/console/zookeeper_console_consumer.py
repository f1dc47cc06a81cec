"""`ottla console-consumer --zookeeper`: the console consumer of Kafka 0.8, whose group lives in ZooKeeper."""

from __future__ import annotations

import argparse
import logging
import random
import sys
from typing import Any

from ottla.cli.console.console_consumer import Format
from ottla.cli.framework import connection
from ottla.cli.framework.signals import stopping
from ottla.client.consumer.records import ConsumerRecord
from ottla.cluster.store import znodes
from ottla.config import properties
from ottla.legacy import (
    Blacklist,
    Consumer,
    ConsumerConfig,
    ConsumerTimeoutError,
    KafkaStream,
    MessageAndMetadata,
    TopicFilter,
    Whitelist,
)
from ottla.model import NO_TIMESTAMP

log = logging.getLogger("ottla.cli")

GROUPS = 100_000
"""Groups without a name are numbered below this."""


def run(args: argparse.Namespace) -> int:
    """Print until interrupted, or until a limit is reached; 1 where the group's offsets forbid --from-beginning."""
    options = _options(args)
    config = ConsumerConfig(options)
    of_its_own = "group.id" not in _given(args)
    if not _begin(args, config):
        return 1
    shown = Format.of(dict(properties.override(text) for text in args.property))
    count, exit_code = 0, 0
    try:
        with Consumer.create(config) as connector:
            (stream,) = connector.create_message_streams_by_filter(_filter(args))
            with stopping(_interrupt) as stop:
                count = _print(stream, shown, args)
            exit_code = stop.exit_code
    finally:
        if of_its_own:  # nobody will go on where this one ends
            with connection.zookeeper(args.zookeeper) as zk:
                zk.delete_tree(_group(config))
    print(f"Consumed {count} messages", file=sys.stderr)
    return exit_code


def _interrupt() -> None:
    raise KeyboardInterrupt


def _print(stream: KafkaStream, shown: Format, args: argparse.Namespace) -> int:
    """How many messages were printed."""
    count = 0
    try:
        while args.max_messages is None or count < args.max_messages:
            try:
                found = stream.iterator().next()
                sys.stdout.buffer.write(shown.line(_record(found)))
                sys.stdout.buffer.flush()
            except (ConsumerTimeoutError, StopIteration, BrokenPipeError):
                raise
            except Exception as error:
                if not args.skip_message_on_error:
                    raise
                log.error("error processing message, skipping this message: %s", error)
                continue
            count += 1
    except (KeyboardInterrupt, StopIteration):
        pass  # the way to end this tool
    except ConsumerTimeoutError as error:
        print(error, file=sys.stderr)
    return count


def _begin(args: argparse.Namespace, config: ConsumerConfig) -> bool:
    """Forget the group's offsets where that is told; False where they are in the way of --from-beginning."""
    with connection.zookeeper(args.zookeeper) as zk:
        if args.delete_consumer_offsets:
            zk.delete_tree(_group(config))
        elif args.from_beginning and zk.get(f"{_group(config)}/offsets") is not None:
            print(
                f"Found previous offset information for this group {config.group_id}. Please use"
                " --delete-consumer-offsets to delete previous offsets metadata",
                file=sys.stderr,
            )
            return False
    return True


def _group(config: ConsumerConfig) -> str:
    return f"{znodes.CONSUMERS}/{config.group_id}"


def _record(found: MessageAndMetadata) -> ConsumerRecord:
    """As the new consumer has it: messages of format 0 have no timestamp and no headers."""
    return ConsumerRecord(found.topic, found.partition, -1, found.offset, NO_TIMESTAMP, 0, found.key, found.message, [])


def _filter(args: argparse.Namespace) -> TopicFilter:
    if args.blacklist is not None:
        return Blacklist(args.blacklist)
    return Whitelist(args.include if args.topic is None else args.topic.replace(".", "\\."))


def _given(args: argparse.Namespace) -> dict[str, Any]:
    """What the user set."""
    options: dict[str, Any] = dict(properties.load(args.command_config)) if args.command_config else {}
    options.update(properties.override(text) for text in args.consumer_property)
    if args.group:
        options["group.id"] = args.group
    return options


def _options(args: argparse.Namespace) -> dict[str, Any]:
    options = {"group.id": f"console-consumer-{random.randrange(GROUPS)}", **_given(args)}
    options["auto.offset.reset"] = "smallest" if args.from_beginning else "largest"
    options["zookeeper.connect"] = args.zookeeper
    if args.timeout_ms is not None:
        options["consumer.timeout.ms"] = args.timeout_ms
    return options

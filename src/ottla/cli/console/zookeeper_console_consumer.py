"""`ottla console-consumer --zookeeper`: the console consumer of Kafka 0.8, which stores its group's members and, by
default, its offsets in ZooKeeper.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
from typing import Any

from ottla.cli.console.record_format import Format
from ottla.cli.framework import connection
from ottla.cli.framework.signals import stopping
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
from ottla.logs import reason_of
from ottla.model import NO_TIMESTAMP
from ottla.records.consumer_record import ConsumerRecord

log = logging.getLogger("ottla.cli")

GROUPS = 100_000
"""Exclusive limit of the random number in the name of the group if no group is set."""


def run(args: argparse.Namespace) -> int:
    """Print messages until a limit is reached or a signal arrives, and return 0 or 128 plus the number of the signal.
    Return 1 if the group has offsets and --from-beginning is set without --delete-consumer-offsets.
    """
    options = _options(args)
    config = ConsumerConfig(options)
    is_temporary = "group.id" not in _user_options(args)
    if not _prepare_group(args, config):
        return 1
    record_format = Format.from_properties(dict(properties.override(text) for text in args.property))
    count, exit_code = 0, 0
    try:
        with Consumer.create(config) as connector:
            (stream,) = connector.create_message_streams_by_filter(_filter(args))
            with stopping(_interrupt) as stop:
                count = _print(stream, record_format, args)
            exit_code = stop.exit_code
    finally:
        if is_temporary:  # the offsets of this group are of no use to anyone
            with connection.zookeeper(args.zookeeper) as zk:
                zk.delete_tree(_group(config))
    print(f"Consumed {count} messages", file=sys.stderr)
    return exit_code


def _interrupt() -> None:
    raise KeyboardInterrupt


def _print(stream: KafkaStream, record_format: Format, args: argparse.Namespace) -> int:
    """Print messages until the limit of `--max-messages` or `--timeout-ms` is reached or a signal arrives. Return their
    number.
    """
    count = 0
    try:
        while args.max_messages is None or count < args.max_messages:
            message: MessageAndMetadata | None = None
            try:
                message = stream.iterator().next()
                sys.stdout.buffer.write(record_format.line(_record(message)))
                sys.stdout.buffer.flush()
            except (ConsumerTimeoutError, StopIteration, BrokenPipeError):
                raise
            except Exception as error:
                if not args.skip_message_on_error:
                    raise
                reason = reason_of(error)
                if message is None:
                    log.error("Cannot read a message; continuing (--skip-message-on-error): %s", reason)
                else:
                    log.error(
                        "Cannot decode or print the message at offset %d of %s-%d; continuing with the next one "
                        "(--skip-message-on-error): %s",
                        message.offset,
                        message.topic,
                        message.partition,
                        reason,
                    )
                continue
            count += 1
    except (KeyboardInterrupt, StopIteration):
        pass  # the usual end of this tool
    except ConsumerTimeoutError as error:
        print(error, file=sys.stderr)
    return count


def _prepare_group(args: argparse.Namespace, config: ConsumerConfig) -> bool:
    """Delete the znodes of the group if --delete-consumer-offsets is set. Otherwise return False, and print why, if the
    group has offsets although --from-beginning is set.
    """
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


def _record(message: MessageAndMetadata) -> ConsumerRecord:
    """Convert a message of magic 0 to a record; it has no timestamp and no headers."""
    return ConsumerRecord(
        message.topic, message.partition, -1, message.offset, NO_TIMESTAMP, 0, message.key, message.message, []
    )


def _filter(args: argparse.Namespace) -> TopicFilter:
    if args.blacklist is not None:
        return Blacklist(args.blacklist)
    return Whitelist(args.include if args.topic is None else args.topic.replace(".", "\\."))


def _user_options(args: argparse.Namespace) -> dict[str, Any]:
    options: dict[str, Any] = dict(properties.load(args.command_config)) if args.command_config else {}
    options.update(properties.override(text) for text in args.consumer_property)
    if args.group:
        options["group.id"] = args.group
    return options


def _options(args: argparse.Namespace) -> dict[str, Any]:
    options = {"group.id": f"console-consumer-{random.randrange(GROUPS)}", **_user_options(args)}
    options["auto.offset.reset"] = "smallest" if args.from_beginning else "largest"
    options["zookeeper.connect"] = args.zookeeper
    if args.timeout_ms is not None:
        options["consumer.timeout.ms"] = args.timeout_ms
    return options

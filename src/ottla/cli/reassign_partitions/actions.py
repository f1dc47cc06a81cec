"""What `ottla reassign-partitions` does, an action each; texts are those of kafka-reassign-partitions.sh."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from ottla.cli.framework.broker_ids import ids
from ottla.cli.framework.connection import client_options
from ottla.cli.framework.json_answers import in_one_line
from ottla.cli.reassign_partitions import plan_json as files
from ottla.cli.reassign_partitions import throttles as throttles
from ottla.cli.reassign_partitions.plan import proposed, racks_of
from ottla.cli.reassign_partitions.plan_json import Move
from ottla.cli.reassign_partitions.states import described, log_dirs_of, partition_states, replica_states, replicas_of
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.client.admin.partitions import PartitionReassignment
from ottla.client.core.metadata import TopicInfo
from ottla.errors import (
    ConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    ReplicaNotAvailableError,
)
from ottla.model import TopicPartition

TIMEOUT_MS: Final = 10_000
NO_THROTTLE: Final = -1
"""Kafka's default: rates are left as they are."""

OTHERS_MOVE: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create "
    "a new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
MUST_VERIFY: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)


class Account:
    """What is told: text at once, or one JSON document at the end, with what was done before an error, too."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self.fields: dict[str, Any] = {}

    def tell(self, text: str, **fields: Any) -> None:
        """A line or more, and the same for programs."""
        self.fields |= fields
        if not self._as_json:
            print(text, flush=True)

    def end(self) -> None:
        """Print what is for programs."""
        if self._as_json and self.fields:
            print(json.dumps(self.fields))


def generate(args: argparse.Namespace, account: Account) -> None:
    """`--generate`: nothing is changed."""
    wanted, topics = files.read_brokers(args.broker_list), files.read_topics(args.topics_to_move_json_file)
    with _admin(args) as admin:
        nodes = admin.describe_cluster().nodes
        racks = racks_of(nodes, wanted, aware=not args.disable_rack_aware)
        found = described(admin, (topic.name for topic in topics))
        for topic in topics:
            if topic.name not in found:
                raise ConfigurationError(f"{topic.place}: Topic {topic.name} not found.")
        new = files.as_json(proposed(found.values(), racks))
        places = {TopicPartition(t.name, p.partition): p.replicas for t in found.values() for p in t.partitions}
        current = files.as_json(places, log_dirs_of(admin, places, {node.id for node in nodes}))
    account.tell(f"Current partition replica assignment\n{in_one_line(current)}\n", current=current)
    account.tell(f"Proposed partition reassignment configuration\n{in_one_line(new)}", proposed=new)


def execute(args: argparse.Namespace, account: Account) -> None:
    """`--execute`: returns when all moves have begun."""
    moves = files.read_moves(args.reassignment_json_file)
    wanted, log_dirs = {move.partition: move.replicas for move in moves}, files.wanted_log_dirs(moves)
    with _admin(args) as admin:
        moving = admin.list_partition_reassignments()
        if moving and not args.additional:
            raise ConfigurationError(OTHERS_MOVE)
        brokers = _brokers(admin)
        current = _current(admin, moves, brokers)
        before = files.as_json(current, log_dirs_of(admin, current, brokers))
        account.tell(
            f"Current partition replica assignment\n\n{in_one_line(before)}\n\n"
            "Save this to use as the --reassignment-json-file option during rollback",
            current=before,
        )
        found = throttles.ways(moving, wanted, current)
        _throttle(admin, args, account, brokers, found, {replica.broker_id for replica in log_dirs})
        errors: dict[Any, KafkaError] = {}
        admin.alter_partition_reassignments(wanted, errors=errors)
        _raise_all("Error reassigning partition(s):", errors)
        account.tell(
            f"Successfully started partition reassignment{_s(wanted)} for {_names(wanted)}",
            started=[tp._asdict() for tp in sorted(wanted)],
        )
        if log_dirs:
            _move_log_dirs(admin, args, account, log_dirs)


def verify(args: argparse.Namespace, account: Account) -> None:
    """`--verify`: throttles are removed when nothing moves any more, whether it is in the file or not."""
    moves = files.read_moves(args.reassignment_json_file)
    with _admin(args) as admin:
        moving, brokers = admin.list_partition_reassignments(), _brokers(admin)
        topics = described(admin, (move.partition.topic for move in moves))
        states = partition_states(moves, moving, topics)
        account.tell(
            "\n".join(["Status of partition reassignment:", *map(str, states)]),
            partitions=[state.as_json() for state in states],
        )
        replicas = replica_states(admin, files.wanted_log_dirs(moves), brokers)
        account.tell("\n".join(map(str, replicas)), log_dirs=[state.as_json() for state in replicas])
        if not moving and not any(state.is_moving for state in replicas):
            _clear(admin, args, account, brokers, topics)
        _check_known(moves, topics)


def cancel(args: argparse.Namespace, account: Account) -> None:
    """`--cancel`: partitions of the file that are moving go back to where they were."""
    moves = files.read_moves(args.reassignment_json_file)
    with _admin(args) as admin:
        brokers, topics = _brokers(admin), described(admin, (move.partition.topic for move in moves))
        _check_known(moves, topics)
        moving = sorted(admin.list_partition_reassignments([move.partition for move in moves]))
        errors: dict[Any, KafkaError] = {}
        if moving:
            admin.alter_partition_reassignments(dict.fromkeys(moving), errors=errors)
        _raise_all(f"Error cancelling partition reassignment{_s(errors)} for:", errors)
        account.tell(
            f"Successfully cancelled partition reassignment{_s(moving)} for: {_names(moving)}"
            if moving
            else "None of the specified partition reassignments are active.",
            cancelled=[tp._asdict() for tp in moving],
        )
        states = replica_states(admin, files.wanted_log_dirs(moves), brokers)
        # a move ends where its replica is told to go to the directory that it lies in
        back = {s.replica: s.place.current_log_dir for s in states if s.is_moving and s.place is not None}
        if back:
            _move_log_dirs(admin, args, account, {r: path for r, path in back.items() if path is not None})
        else:
            account.tell("None of the specified partition moves are active.", log_dirs=[])
        _clear(admin, args, account, brokers, topics)


def list_(args: argparse.Namespace, account: Account) -> None:
    """`--list`."""
    with _admin(args) as admin:
        moving = sorted(admin.list_partition_reassignments().items())
    account.tell(
        "\n".join(["Current partition reassignments:", *(_move_line(tp, move) for tp, move in moving)])
        if moving
        else "No partition reassignments found.",
        reassignments=[{**tp._asdict(), **move._asdict()} for tp, move in moving],
    )


def _admin(args: argparse.Namespace) -> KafkaAdminClient:
    return KafkaAdminClient({"client.id": "reassign-partitions-tool", **client_options(args)})


def _brokers(admin: KafkaAdminClient) -> set[int]:
    return {node.id for node in admin.describe_cluster().nodes}


def _current(
    admin: KafkaAdminClient, moves: Iterable[Move], brokers: Collection[int]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Where the partitions are now; ConfigurationError for one, or a broker, that is not there."""
    for move in moves:
        for broker in move.replicas:
            if broker not in brokers:
                raise ConfigurationError(f"{move.place}: Unknown broker id {broker}; {ids(sorted(brokers))} are there")
    topics = described(admin, (move.partition.topic for move in moves))
    _check_known(moves, topics)
    return {move.partition: replicas_of(move.partition, topics) or () for move in moves}


def _check_known(moves: Iterable[Move], topics: Mapping[str, TopicInfo]) -> None:
    for move in moves:
        if move.partition.topic not in topics:
            raise ConfigurationError(f"{move.place}: Topic {move.partition.topic} not found.")
        if replicas_of(move.partition, topics) is None:
            raise ConfigurationError(f"{move.place}: Unable to find partition: {move.partition}")


def _throttle(
    admin: KafkaAdminClient,
    args: argparse.Namespace,
    account: Account,
    brokers: Collection[int],
    found: throttles.Ways,
    log_dir_brokers: Collection[int],
) -> None:
    """Set the rates that were asked for."""
    rate, log_dir_rate = (
        None if value == NO_THROTTLE else value for value in (args.throttle, args.replica_alter_log_dirs_throttle)
    )
    if rate is not None or log_dir_rate is not None:
        account.tell(MUST_VERIFY)
    if rate is not None:
        throttles.throttle_brokers(admin, throttles.brokers_of(found) & set(brokers), found, rate)
        account.tell(f"The inter-broker throttle limit was set to {rate} B/s", throttle=rate)
    if log_dir_rate is not None:
        throttles.throttle_log_dirs(admin, log_dir_brokers, log_dir_rate)
        account.tell(
            f"The replica-alter-dir throttle limit was set to {log_dir_rate} B/s",
            replica_alter_log_dirs_throttle=log_dir_rate,
        )


def _clear(
    admin: KafkaAdminClient,
    args: argparse.Namespace,
    account: Account,
    brokers: Collection[int],
    topics: Collection[str],
) -> None:
    """Remove all throttles: which brokers had to do with moves that are over is not known."""
    if args.preserve_throttles:
        return
    account.tell(
        f"Clearing broker-level throttles on broker{_s(brokers)} {ids(sorted(brokers))}",
        cleared_brokers=sorted(brokers),
    )
    throttles.clear_brokers(admin, brokers)
    if topics:
        account.tell(
            f"Clearing topic-level throttles on topic{_s(topics)} {','.join(sorted(topics))}",
            cleared_topics=sorted(topics),
        )
        throttles.clear_topics(admin, topics)


def _move_log_dirs(
    admin: KafkaAdminClient, args: argparse.Namespace, account: Account, wanted: Mapping[TopicPartitionReplica, str]
) -> None:
    """Begin moves to data directories; replicas that are on their way to their brokers are waited for."""
    errors: dict[Any, KafkaError] = {}
    limit = TIMEOUT_MS if args.timeout is None else args.timeout
    admin.alter_replica_log_dirs(wanted, limit, errors=errors)
    started = sorted((r for r in wanted if r not in errors), key=lambda r: (r.broker_id, *r))
    lines = [
        f"Successfully started moving log directory to {wanted[r]} for replica {TopicPartition(*r[:2])} "
        f"with broker {r.broker_id}"
        for r in started
    ]
    if started:
        account.tell("\n".join(lines), log_dirs=[{**r._asdict(), "target_log_dir": wanted[r]} for r in started])
    for replica, error in sorted(errors.items()):
        if not isinstance(error, (ReplicaNotAvailableError, KafkaTimeoutError)):
            raise type(error)(f"Failed to alter dir for {_replica(replica)} to {wanted[replica]}: {error.message}")
    if errors:
        late = ",".join(_replica(replica) for replica in sorted(errors))
        raise KafkaTimeoutError(f"Timed out before log directory move{_s(errors)} could be started for: {late}")


def _raise_all(text: str, errors: Mapping[Any, KafkaError]) -> None:
    if errors:
        first = errors[min(errors)]
        raise type(first)("\n".join([text, *(f"{tp}: {errors[tp].message}" for tp in sorted(errors))]))


def _move_line(tp: TopicPartition, move: PartitionReassignment) -> str:
    adding = f" adding: {ids(move.adding_replicas)}." if move.adding_replicas else ""
    removing = f" removing: {ids(move.removing_replicas)}." if move.removing_replicas else ""
    return f"{tp}: replicas: {ids(move.replicas)}.{adding}{removing}"


def _replica(replica: TopicPartitionReplica) -> str:
    return "-".join(map(str, replica))


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, sorted(partitions)))


def _s(things: Collection[object]) -> str:
    return "" if len(things) == 1 else "s"

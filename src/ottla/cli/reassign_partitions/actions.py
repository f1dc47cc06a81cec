"""The actions of `ottla reassign-partitions`. The texts are those of kafka-reassign-partitions.sh."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from ottla.cli.framework.output import Output, ids, in_one_line
from ottla.cli.reassign_partitions import plan_json as files
from ottla.cli.reassign_partitions import throttles
from ottla.cli.reassign_partitions.plan import proposed, racks_of
from ottla.cli.reassign_partitions.plan_json import Move
from ottla.cli.reassign_partitions.states import described, log_dirs_of, partition_states, replica_states, replicas_of
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.client.admin.topics.partitions import PartitionReassignment
from ottla.client.core.metadata import TopicInfo
from ottla.errors import ConfigurationError, KafkaError, KafkaTimeoutError, ReplicaNotAvailableError
from ottla.model import TopicPartition

TIMEOUT_MS: Final = 10_000
NO_THROTTLE: Final = -1
"""The value of the throttle options that leaves throttles unchanged, as without the option. It is Kafka's default."""

OTHERS_MOVE: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create "
    "a new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
MUST_VERIFY: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)


def generate(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> None:
    """Print the current assignment of topics, and a proposed one to the brokers in `--broker-list`. Nothing is changed.

    Raises a KafkaError if a topic or broker does not exist, or if the number or the racks of the brokers do not permit
    an assignment.
    """
    brokers, topics = files.read_brokers(args.broker_list), files.read_topics(args.topics_to_move_json_file)
    nodes = admin.describe_cluster().nodes
    racks = racks_of(nodes, brokers, aware=not args.disable_rack_aware)
    infos = described(admin, (topic.name for topic in topics))
    for topic in topics:
        if topic.name not in infos:
            raise ConfigurationError(f"{topic.place}: Topic {topic.name} not found.")
    new = files.as_json(proposed(infos.values(), racks))
    assignment = {TopicPartition(t.name, p.partition): p.replicas for t in infos.values() for p in t.partitions}
    current = files.as_json(assignment, log_dirs_of(admin, assignment, {node.id for node in nodes}))
    output.report(f"Current partition replica assignment\n{in_one_line(current)}\n", current=current)
    output.report(f"Proposed partition reassignment configuration\n{in_one_line(new)}", proposed=new)


def execute(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> None:
    """Set the requested throttles, and start the reassignments and log directory moves in the file. Returns when they
    have started.

    Raises a KafkaError if other reassignments are active and `--additional` is not set, if a partition or broker does
    not exist, or if a reassignment or move cannot be started.
    """
    moves = files.read_moves(args.reassignment_json_file)
    targets, log_dirs = {move.partition: move.replicas for move in moves}, files.target_log_dirs(moves)
    moving = admin.list_partition_reassignments()
    if moving and not args.additional:
        raise ConfigurationError(OTHERS_MOVE)
    brokers = _brokers(admin)
    current = _current(admin, moves, brokers)
    before = files.as_json(current, log_dirs_of(admin, current, brokers))
    output.report(
        f"Current partition replica assignment\n\n{in_one_line(before)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback",
        current=before,
    )
    routes = throttles.routes(moving, targets, current)
    _throttle(admin, args, output, brokers, routes, {replica.broker_id for replica in log_dirs})
    errors: dict[Any, KafkaError] = {}
    may_change = not args.disallow_replication_factor_change
    admin.alter_partition_reassignments(targets, allow_replication_factor_change=may_change, errors=errors)
    _raise_all("Error reassigning partition(s):", errors)
    output.report(
        f"Successfully started partition reassignment{_s(targets)} for {_names(targets)}",
        started=[tp._asdict() for tp in sorted(targets)],
    )
    if log_dirs:
        _move_log_dirs(admin, args, output, log_dirs)


def verify(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> None:
    """Print the progress of the reassignments and log directory moves in the file. If no partition of the cluster is
    being reassigned and no replica in the file is being moved, remove the throttles, unless `--preserve-throttles` is
    set. Finally raise ConfigurationError if a partition in the file does not exist.
    """
    moves = files.read_moves(args.reassignment_json_file)
    moving, brokers = admin.list_partition_reassignments(), _brokers(admin)
    topics = described(admin, (move.partition.topic for move in moves))
    states = partition_states(moves, moving, topics)
    output.report(
        "\n".join(["Status of partition reassignment:", *map(str, states)]),
        partitions=[state.as_json() for state in states],
    )
    replicas = replica_states(admin, files.target_log_dirs(moves), brokers)
    output.report("\n".join(map(str, replicas)), log_dirs=[state.as_json() for state in replicas])
    if not moving and not any(state.is_moving for state in replicas):
        _clear(admin, args, output, brokers, topics)
    _check_exist(moves, topics)


def cancel(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> None:
    """Cancel the reassignments and log directory moves in the file, and remove the throttles, unless
    `--preserve-throttles` is set. The partitions return to their original replicas.
    """
    moves = files.read_moves(args.reassignment_json_file)
    brokers, topics = _brokers(admin), described(admin, (move.partition.topic for move in moves))
    _check_exist(moves, topics)
    moving = sorted(admin.list_partition_reassignments([move.partition for move in moves]))
    errors: dict[Any, KafkaError] = {}
    if moving:
        admin.alter_partition_reassignments(dict.fromkeys(moving), errors=errors)
    _raise_all(f"Error cancelling partition reassignment{_s(errors)} for:", errors)
    output.report(
        f"Successfully cancelled partition reassignment{_s(moving)} for: {_names(moving)}"
        if moving
        else "None of the specified partition reassignments are active.",
        cancelled=[tp._asdict() for tp in moving],
    )
    states = replica_states(admin, files.target_log_dirs(moves), brokers)
    # A move is cancelled by moving the replica to its current directory.
    back = {s.replica: s.log_dirs.current_log_dir for s in states if s.is_moving and s.log_dirs is not None}
    if back:
        _move_log_dirs(admin, args, output, {r: path for r, path in back.items() if path is not None})
    else:
        output.report("None of the specified partition moves are active.", log_dirs=[])
    _clear(admin, args, output, brokers, topics)


def list_(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> None:
    """Print all active reassignments of the cluster."""
    moving = sorted(admin.list_partition_reassignments().items())
    output.report(
        "\n".join(["Current partition reassignments:", *(_move_line(tp, move) for tp, move in moving)])
        if moving
        else "No partition reassignments found.",
        reassignments=[{**tp._asdict(), **move._asdict()} for tp, move in moving],
    )


def _brokers(admin: KafkaAdminClient) -> set[int]:
    return {node.id for node in admin.describe_cluster().nodes}


def _current(
    admin: KafkaAdminClient, moves: Iterable[Move], brokers: Collection[int]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the current replicas of partitions. Raises ConfigurationError for partitions and brokers that do not
    exist.
    """
    for move in moves:
        for broker in move.replicas:
            if broker not in brokers:
                raise ConfigurationError(
                    f"{move.place}: Unknown broker id {broker}; brokers are {ids(sorted(brokers))}"
                )
    topics = described(admin, (move.partition.topic for move in moves))
    _check_exist(moves, topics)
    return {move.partition: replicas_of(move.partition, topics) or () for move in moves}


def _check_exist(moves: Iterable[Move], topics: Mapping[str, TopicInfo]) -> None:
    for move in moves:
        if move.partition.topic not in topics:
            raise ConfigurationError(f"{move.place}: Topic {move.partition.topic} not found.")
        if replicas_of(move.partition, topics) is None:
            raise ConfigurationError(f"{move.place}: Unable to find partition: {move.partition}")


def _throttle(
    admin: KafkaAdminClient,
    args: argparse.Namespace,
    output: Output,
    brokers: Collection[int],
    routes: throttles.Routes,
    log_dir_brokers: Collection[int],
) -> None:
    rate, log_dir_rate = (
        None if value == NO_THROTTLE else value for value in (args.throttle, args.replica_alter_log_dirs_throttle)
    )
    if rate is not None or log_dir_rate is not None:
        output.report(MUST_VERIFY)
    if rate is not None:
        throttles.throttle_brokers(admin, throttles.brokers_of(routes) & set(brokers), routes, rate)
        output.report(f"The inter-broker throttle limit was set to {rate} B/s", throttle=rate)
    if log_dir_rate is not None:
        throttles.throttle_log_dirs(admin, log_dir_brokers, log_dir_rate)
        output.report(
            f"The replica-alter-dir throttle limit was set to {log_dir_rate} B/s",
            replica_alter_log_dirs_throttle=log_dir_rate,
        )


def _clear(
    admin: KafkaAdminClient, args: argparse.Namespace, output: Output, brokers: Collection[int], topics: Collection[str]
) -> None:
    """Remove the throttles from all brokers and the topics, unless `--preserve-throttles` is set. It is unknown which
    brokers took part in reassignments that are complete.
    """
    if args.preserve_throttles:
        return
    output.report(
        f"Clearing broker-level throttles on broker{_s(brokers)} {ids(sorted(brokers))}",
        cleared_brokers=sorted(brokers),
    )
    throttles.clear_brokers(admin, brokers)
    if topics:
        output.report(
            f"Clearing topic-level throttles on topic{_s(topics)} {','.join(sorted(topics))}",
            cleared_topics=sorted(topics),
        )
        throttles.clear_topics(admin, topics)


def _move_log_dirs(
    admin: KafkaAdminClient, args: argparse.Namespace, output: Output, log_dirs: Mapping[TopicPartitionReplica, str]
) -> None:
    """Start moving replicas to other log directories. Wait up to `--timeout` for replicas that their brokers have not
    created yet, then raise KafkaTimeoutError. Raises the first other error of a replica.
    """
    errors: dict[Any, KafkaError] = {}
    timeout_ms = TIMEOUT_MS if args.timeout is None else args.timeout
    admin.alter_replica_log_dirs(log_dirs, timeout_ms, errors=errors)
    started = sorted((r for r in log_dirs if r not in errors), key=lambda r: (r.broker_id, *r))
    lines = [
        f"Successfully started moving log directory to {log_dirs[r]} for replica {TopicPartition(*r[:2])} "
        f"with broker {r.broker_id}"
        for r in started
    ]
    if started:
        output.report("\n".join(lines), log_dirs=[{**r._asdict(), "target_log_dir": log_dirs[r]} for r in started])
    for replica, error in sorted(errors.items()):
        if not isinstance(error, (ReplicaNotAvailableError, KafkaTimeoutError)):
            raise type(error)(f"Failed to alter dir for {_replica(replica)} to {log_dirs[replica]}: {error.message}")
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

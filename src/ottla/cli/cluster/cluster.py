"""A cluster on this machine: brokers and, if requested, ZooKeeper. Their processes continue to run after the command
has ended.

    ottla cluster up                 three brokers on 9092, 9093 and 9094
    ottla cluster up --zookeeper     the same with ZooKeeper on 127.0.0.1:2181, Kafka's classic layout
    ottla cluster status             processes, controller, under-replicated and offline partitions
    ottla cluster kill 1             as in a crash; --signal TERM is a controlled shutdown, STOP pauses, CONT resumes
    ottla cluster start 1            start it again
    ottla cluster add --rack b       one more broker
    ottla cluster down               controlled shutdown; the data stays, and `up` continues with it

The actions of kafka-cluster.sh are for any cluster: cluster-id, unregister, list-endpoints.

Files, logs and data are in the directory (./ottla-cluster); server-N.properties may be edited. Without ZooKeeper the
brokers share an embedded metadata store. --zookeeper requires `pip install 'ottla[cluster,spark]'`, as ZooKeeper's jars
come with PySpark.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from ottla.cli.cluster import any_cluster
from ottla.cli.cluster.local_cluster import Broker, LocalCluster, locked
from ottla.cli.cluster.status import as_text, status
from ottla.cli.framework.command import Action, Command
from ottla.cli.framework.options import Flag, Option, Repeatable
from ottla.config import properties
from ottla.errors import ConfigurationError, StartupError

BROKERS = 3
MOST_BROKERS = 50
BASE_PORT = 9092
ZOOKEEPER_PORT = 2181


def _signal(text: str) -> signal.Signals:
    try:
        return signal.Signals(int(text)) if text.isdigit() else signal.Signals[f"SIG{text.upper().removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a signal") from None


def _locked(action: Callable[[Path, argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Wrap an action so that it holds the lock of the cluster's directory, and raises ConfigurationError if another
    command holds the lock, or if there is no cluster and the action is not `up`.
    """

    def run(args: argparse.Namespace) -> int:
        directory = args.dir.resolve()
        if args.action != "up":
            _existing(directory)  # before the lock file creates the directory
        with locked(directory):
            return action(directory, args)

    return run


def show_status(args: argparse.Namespace) -> int:
    """Print the status. Return 1 unless the cluster is healthy (see `Status.is_healthy`)."""
    return _print_status(_existing(args.dir.resolve()), args, strict=True)


def up(directory: Path, args: argparse.Namespace) -> int:
    """Start the cluster, after creating it if the directory has none, and print the status.

    Raises ConfigurationError for invalid options, such as `--override` or another number of brokers for a cluster that
    exists, and StartupError if a process does not start.
    """
    cluster = LocalCluster.load(directory)
    if cluster is None:
        cluster = _new(directory, args)
    elif args.brokers not in (None, len(cluster.brokers)) or args.override:
        raise ConfigurationError(
            f"{directory} has a cluster of {len(cluster.brokers)} brokers; use `add` for more of them, and edit "
            "server-N.properties for configs"
        )
    elif args.base_port not in (None, cluster.base_port):
        raise ConfigurationError(
            f"{directory} has a cluster with ports from {cluster.brokers[0].port} on; for other ports, use another "
            "--dir, or delete this directory first"
        )
    elif (args.zookeeper or args.zookeeper_port is not None) and cluster.zookeeper_port is None:
        raise ConfigurationError(
            f"{directory} has a cluster with an embedded metadata store; "
            "--zookeeper is for a new cluster in another --dir"
        )
    cluster.start_zookeeper()
    cluster.start(*cluster.brokers)
    return _print_status(cluster, args)


def _new(directory: Path, args: argparse.Namespace) -> LocalCluster:
    brokers = BROKERS if args.brokers is None else args.brokers
    if not 1 <= brokers <= MOST_BROKERS:
        raise ConfigurationError(f"--brokers: {brokers} is not allowed: expected 1 to {MOST_BROKERS}")
    overrides = dict(properties.override(text) for text in args.override)
    zookeeper_port = args.zookeeper_port
    if zookeeper_port is None and args.zookeeper:
        zookeeper_port = ZOOKEEPER_PORT
    base_port = BASE_PORT if args.base_port is None else args.base_port
    return LocalCluster.create(directory, brokers, base_port, zookeeper_port, overrides)


def kill(directory: Path, args: argparse.Namespace) -> int:
    """Send the signal in `--signal` to a broker or to ZooKeeper. Return 1 if the process does not exist, else 0."""
    cluster = _existing(directory)
    broker = _find(cluster, args.id)
    is_sent = cluster.send_zookeeper(args.signal) if broker is None else cluster.send(broker, args.signal)
    if not is_sent:
        print(f"ottla cluster: {_label(args.id)} does not run", file=sys.stderr)
        return 1
    print(f"{args.signal.name} was sent to {_label(args.id)}")
    return 0


def start(directory: Path, args: argparse.Namespace) -> int:
    """Start a broker or ZooKeeper if it is not running. Raises StartupError if it is paused or does not start, and
    ConfigurationError if the cluster does not have it, or if there is no suitable Java for ZooKeeper.
    """
    cluster = _existing(directory)
    broker = _find(cluster, args.id)
    if cluster.zookeeper_is_paused() if broker is None else cluster.is_paused(broker):
        command = f"`ottla cluster kill {args.id} --signal CONT`"
        raise StartupError(f"{_label(args.id)} is paused (SIGSTOP): resume it with {command}")
    if broker is None:
        cluster.start_zookeeper()
    else:
        cluster.start(broker)
    print(f"{_label(args.id)} runs")
    return 0


def add(directory: Path, args: argparse.Namespace) -> int:
    """Add a broker with the configs of the last broker, apart from its rack, and with those of `--rack` and
    `--override`. Start it, and print the status.
    """
    cluster = _existing(directory)
    configs = cluster.common_configs() | dict(properties.override(text) for text in args.override)
    if args.rack:
        configs["broker.rack"] = args.rack
    broker = cluster.add(configs)
    cluster.start(broker)
    return _print_status(cluster, args)


def down(directory: Path, args: argparse.Namespace) -> int:
    """Shut down the brokers, the last one first, and then ZooKeeper. Return 1 if a process had to be killed."""
    cluster = _existing(directory)
    killed = [f"broker {broker.id}" for broker in reversed(cluster.brokers) if not cluster.stop(broker)]
    if cluster.zookeeper is not None and not cluster.stop_zookeeper():
        killed.append("ZooKeeper")
    for name in killed:
        print(f"ottla cluster: {name} did not stop in time and was killed", file=sys.stderr)
    print(f"All processes are stopped; the data stays in {directory}")
    return int(bool(killed))


def _existing(directory: Path) -> LocalCluster:
    cluster = LocalCluster.load(directory)
    if cluster is None:
        raise ConfigurationError(f"{directory} has no cluster; create one with `ottla cluster up`")
    return cluster


def _find(cluster: LocalCluster, text: str) -> Broker | None:
    """Return the broker with this id; None if `text` is "zookeeper". Raises ConfigurationError if the cluster has no
    such broker, or no ZooKeeper.
    """
    if text == "zookeeper":
        cluster.check_zookeeper()
        return None
    if not text.isdigit():
        raise ConfigurationError(f"{text!r} is not allowed: expected a broker id or zookeeper")
    return cluster.broker(int(text))


def _label(identity: str) -> str:
    return "ZooKeeper" if identity == "zookeeper" else f"broker {identity}"


def _print_status(cluster: LocalCluster, args: argparse.Namespace, *, strict: bool = False) -> int:
    report = status(cluster)
    print(json.dumps(asdict(report)) if args.format == "json" else "\n".join(as_text(report)))
    return int(strict and not report.is_healthy)


_DIR = Option("--dir DIR", "directory of the cluster's files, logs and data", Path, default=Path("ottla-cluster"))
_FORMAT = Option("--format", "format of the output: text or json", choices=("text", "json"), default="text")
_ID = Option("id ID", "id of a broker, such as 1, or zookeeper")
_OVERRIDE = Repeatable("--override NAME=VALUE", "broker config of the new brokers, such as num.partitions=3")

COMMAND = Command(
    subcommands=True,
    actions=(
        Action(
            "up",
            "start the cluster, which is created if the directory has none",
            _locked(up),
            options=(
                _DIR,
                _FORMAT,
                Option(
                    "--brokers N", f"number of brokers of a new cluster, 1 to {MOST_BROKERS} (default: {BROKERS})", int
                ),
                Option(
                    "--base-port PORT",
                    "port of broker 0 of a new cluster; broker N has PORT + N. 0: all have free ports (default: "
                    f"{BASE_PORT})",
                    int,
                ),
                Flag(
                    "--zookeeper",
                    "use ZooKeeper as the metadata store of a new cluster instead of the embedded one",
                ),
                Option(
                    "--zookeeper-port PORT",
                    f"port of ZooKeeper (default: {ZOOKEEPER_PORT}); 0: any free port; implies --zookeeper",
                    int,
                ),
                _OVERRIDE,
            ),
        ),
        Action(
            "status",
            "print processes, controller and unhealthy partitions; exit code 1 unless everything is healthy",
            show_status,
            options=(_DIR, _FORMAT),
        ),
        Action(
            "kill",
            "send a signal to a broker or to ZooKeeper",
            _locked(kill),
            options=(
                _DIR,
                _ID,
                Option(
                    "--signal",
                    "signal to send, by name or number: KILL (a crash), TERM (a controlled shutdown), STOP, CONT …",
                    _signal,
                    default="KILL",
                ),
            ),
        ),
        Action("start", "start a broker or ZooKeeper again", _locked(start), options=(_DIR, _ID)),
        Action(
            "add",
            "add a broker with the configs of the last one",
            _locked(add),
            options=(_DIR, _FORMAT, Option("--rack", "broker.rack of the new broker (default: none)"), _OVERRIDE),
        ),
        Action("down", "shut down all brokers, then ZooKeeper if there is one", _locked(down), options=(_DIR,)),
        *any_cluster.ACTIONS,
    ),
)

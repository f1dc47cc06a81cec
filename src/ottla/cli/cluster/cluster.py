"""A cluster on this machine: ZooKeeper and brokers, which go on when the command has ended.

    ottla cluster up                 ZooKeeper on 127.0.0.1:2181, three brokers on 9092, 9093 and 9094
    ottla cluster status             who runs, who is the controller, which partitions lack replicas or leaders
    ottla cluster kill 1             as a crash would; --signal STOP to pause it, CONT to let it go on
    ottla cluster start 1            again, after that
    ottla cluster add --rack b       one broker more
    ottla cluster down               controlled shutdown of all; the data stays, and `up` goes on with it

Files, logs and data lie in the directory (./ottla-cluster): server-N.properties may be edited. Needs
`pip install 'ottla[cluster,spark]'`: ZooKeeper's jars come with PySpark.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from ottla.cli.cluster.local_cluster import LocalCluster, locked
from ottla.cli.cluster.status import Status, as_text, status
from ottla.config import properties
from ottla.errors import ConfigurationError, StartupError

BROKERS = 3
MOST_BROKERS = 50
BASE_PORT = 9092
ZOOKEEPER_PORT = 2181


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla cluster`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="up|status|kill|start|add|down")
    up = _add(actions, "up", "start the cluster of the directory, which is made where there is none", told=True)
    up.add_argument("--brokers", type=int, metavar="N", help=f"how many, for a new cluster; default: {BROKERS}")
    ports = "broker N listens on this and N, 0: on free ports; default: %(default)s"
    up.add_argument("--base-port", type=int, default=BASE_PORT, metavar="PORT", help=ports)
    up.add_argument("--zookeeper-port", type=int, default=ZOOKEEPER_PORT, metavar="PORT", help="0: a free one")
    _add_overrides(up)
    _add(actions, "status", "tell what runs, and what the brokers say; exit code 1 unless all is whole", told=True)
    kill = _add(actions, "kill", "send a signal to a broker, or to ZooKeeper")
    kill.add_argument("id", metavar="ID", help="a broker's id, or zookeeper")
    kill.add_argument("--signal", default="KILL", type=_signal, help="KILL (the default), TERM, STOP, CONT …")
    start = _add(actions, "start", "start a broker again, or ZooKeeper")
    start.add_argument("id", metavar="ID", help="a broker's id, or zookeeper")
    add = _add(actions, "add", "start one broker more, with the options of the last", told=True)
    add.add_argument("--rack", help="the rack it stands in")
    _add_overrides(add)
    _add(actions, "down", "controlled shutdown of all brokers, then of ZooKeeper")


def _add(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, *, told: bool = False
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=text)
    where = "the cluster's directory; default: %(default)s"
    parser.add_argument("--dir", type=Path, default=Path("ottla-cluster"), metavar="DIR", help=where)
    if told:
        parser.add_argument("--format", choices=("text", "json"), default="text", help="how to tell what there is")
    return parser


def _add_overrides(parser: argparse.ArgumentParser) -> None:
    text = "an option of new brokers; repeatable"
    parser.add_argument("--override", action="append", default=[], metavar="key=value", help=text)


def _signal(text: str) -> signal.Signals:
    try:
        return signal.Signals(int(text)) if text.isdigit() else signal.Signals[f"SIG{text.upper().removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r} is no signal") from None


def run(args: argparse.Namespace) -> int:
    """Do it; 1 with one line where that fails."""
    directory = args.dir.resolve()
    if args.action == "status":
        return _tell(status(_existing(directory)), args.format, strict=True)
    if args.action != "up":
        _existing(directory)  # before a lock file makes the directory
    with locked(directory):
        return ACTIONS[args.action](directory, args)


def up(directory: Path, args: argparse.Namespace) -> int:
    """`up`."""
    cluster = LocalCluster.load(directory)
    if cluster is None:
        cluster = _new(directory, args)
    elif args.brokers not in (None, len(cluster.brokers)) or args.override:
        has = f"{directory} has a cluster of {len(cluster.brokers)} already"
        raise ConfigurationError(f"{has}: `add` makes it larger, its server-N.properties can be edited")
    cluster.start_zookeeper()
    cluster.start(*cluster.brokers)
    return _tell(status(cluster), args.format)


def _new(directory: Path, args: argparse.Namespace) -> LocalCluster:
    brokers = BROKERS if args.brokers is None else args.brokers
    if not 1 <= brokers <= MOST_BROKERS:
        raise ConfigurationError(f"--brokers: {brokers} is not allowed: 1 to {MOST_BROKERS} are wanted")
    given = dict(properties.override(text) for text in args.override)
    return LocalCluster.make(directory, brokers, args.base_port, args.zookeeper_port, given)


def kill(directory: Path, args: argparse.Namespace) -> int:
    """`kill`."""
    cluster = _existing(directory)
    broker = None if args.id == "zookeeper" else cluster.broker(_id(args.id))
    sent = cluster.send_zookeeper(args.signal) if broker is None else cluster.send(broker, args.signal)
    if not sent:
        print(f"ottla cluster: {_called(args.id)} does not run", file=sys.stderr)
        return 1
    print(f"{args.signal.name} was sent to {_called(args.id)}")
    return 0


def start(directory: Path, args: argparse.Namespace) -> int:
    """`start`."""
    cluster = _existing(directory)
    broker = None if args.id == "zookeeper" else cluster.broker(_id(args.id))
    if cluster.zookeeper_is_paused() if broker is None else cluster.is_paused(broker):
        go_on = f"`ottla cluster kill {args.id} --signal CONT`"
        raise StartupError(f"{_called(args.id)} is paused (SIGSTOP): {go_on} lets it go on")
    if broker is None:
        cluster.start_zookeeper()
    else:
        cluster.start(broker)
    print(f"{_called(args.id)} runs")
    return 0


def add(directory: Path, args: argparse.Namespace) -> int:
    """`add`."""
    cluster = _existing(directory)
    options = cluster.common_options() | dict(properties.override(text) for text in args.override)
    if args.rack:
        options["broker.rack"] = args.rack
    broker = cluster.add(options)
    cluster.start(broker)
    return _tell(status(cluster), args.format)


def down(directory: Path, args: argparse.Namespace) -> int:
    """`down`: 1 where something had to be killed."""
    cluster = _existing(directory)
    killed = [f"broker {broker.id}" for broker in reversed(cluster.brokers) if not cluster.stop(broker)]
    if not cluster.stop_zookeeper():
        killed.append("ZooKeeper")
    for name in killed:
        print(f"ottla cluster: {name} did not end in time, and was killed", file=sys.stderr)
    print(f"All is down; the data stays in {directory}")
    return int(bool(killed))


ACTIONS = {"up": up, "kill": kill, "start": start, "add": add, "down": down}


def _existing(directory: Path) -> LocalCluster:
    cluster = LocalCluster.load(directory)
    if cluster is None:
        raise ConfigurationError(f"{directory} has no cluster: `ottla cluster up` makes one")
    return cluster


def _id(text: str) -> int:
    if not text.isdigit():
        raise ConfigurationError(f"{text!r} is not allowed: a broker's id or zookeeper is wanted")
    return int(text)


def _called(identity: str) -> str:
    return "ZooKeeper" if identity == "zookeeper" else f"broker {identity}"


def _tell(found: Status, how: str, *, strict: bool = False) -> int:
    print(json.dumps(asdict(found)) if how == "json" else "\n".join(as_text(found)))
    return int(strict and not found.is_whole)

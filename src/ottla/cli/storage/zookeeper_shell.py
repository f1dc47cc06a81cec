"""Read and change znodes, as zookeeper-shell.sh does. The command is an argument, or commands are read from standard
input.

    ottla zookeeper-shell localhost:2181 ls /brokers/ids
    ottla zookeeper-shell localhost:2181 get /controller

Commands: ls PATH, get PATH, create PATH [DATA], set PATH DATA, delete PATH, deleteall PATH, quit.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from typing import Final

from ottla.cli.framework.command import Command
from ottla.cli.framework.connection import zookeeper
from ottla.cli.framework.options import Option
from ottla.cluster.store.zk_client import ZkClient
from ottla.config.broker.broker_config import zookeeper_address
from ottla.errors import ConfigurationError

USAGE: Final = "ls PATH, get PATH, create PATH [DATA], set PATH DATA, delete PATH, deleteall PATH, quit"


def run(args: argparse.Namespace) -> int:
    """Run the command in the arguments, or those of standard input. Return 1 if one of them failed, otherwise 0."""
    try:
        zookeeper_address(args.connect)
    except ValueError as error:
        raise ConfigurationError(f"{args.connect!r} is not allowed: {error}") from None
    with zookeeper(args.connect) as zk:
        if args.command:
            return int(not _run(zk, list(args.command)))
        return _interactive(zk)


def _interactive(zk: ZkClient) -> int:
    exit_code = 0
    while True:
        if sys.stdin.isatty():
            print("> ", end="", flush=True)
        line = sys.stdin.readline()
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:  # a quote that is not closed
            print(f"{line.rstrip()}: {error}", file=sys.stderr)
            exit_code = 1
            continue
        if not line or words[:1] == ["quit"]:
            return exit_code
        if words and not _run(zk, words):
            exit_code = 1


def _run(zk: ZkClient, words: list[str]) -> bool:
    name, *arguments = words
    if name == "quit":
        return True
    action = ACTIONS.get(name)
    if action is None or not arguments or not arguments[0].startswith("/"):
        print(f"{' '.join(words)}: expected one of {USAGE}", file=sys.stderr)
        return False
    return action(zk, arguments[0], " ".join(arguments[1:]))


def _ls(zk: ZkClient, path: str, _: str) -> bool:
    if not _exists(zk, path):
        return False
    print(f"[{', '.join(sorted(zk.children(path)))}]")
    return True


def _get(zk: ZkClient, path: str, _: str) -> bool:
    value = zk.get(path)
    if value is None:
        return _exists(zk, path)
    print(value.decode(errors="replace") or "null")
    return True


def _create(zk: ZkClient, path: str, data: str) -> bool:
    if zk.get(path) is not None:
        print(f"Node already exists: {path}", file=sys.stderr)
        return False
    zk.update_persistent(path, data.encode())
    print(f"Created {path}")
    return True


def _set(zk: ZkClient, path: str, data: str) -> bool:
    if not _exists(zk, path):
        return False
    zk.update_persistent(path, data.encode())
    return True


def _delete(zk: ZkClient, path: str, _: str) -> bool:
    if not _exists(zk, path):
        return False
    if zk.children(path):
        print(f"Node not empty: {path}; deleteall also deletes its children", file=sys.stderr)
        return False
    zk.delete_tree(path)
    return True


def _delete_all(zk: ZkClient, path: str, _: str) -> bool:
    if not _exists(zk, path):
        return False
    zk.delete_tree(path)
    return True


def _exists(zk: ZkClient, path: str) -> bool:
    if zk.get(path) is not None:
        return True
    print(f"Node does not exist: {path}", file=sys.stderr)
    return False


ACTIONS: Final[dict[str, Callable[[ZkClient, str, str], bool]]] = {
    "ls": _ls,
    "get": _get,
    "create": _create,
    "set": _set,
    "delete": _delete,
    "deleteall": _delete_all,
}

COMMAND = Command(
    run=run,
    options=(
        Option(
            "connect HOST:PORT[,…][/CHROOT]",
            "addresses of ZooKeeper servers, and the chroot to which all paths are relative",
        ),
        Option(
            "command COMMAND", f"command to run: {USAGE}; without it, commands are read from standard input", nargs="*"
        ),
    ),
)

"""Print the embedded metadata store, export it to ZooKeeper, or import it from there.

A standalone broker must not be running. Brokers that share a store may be running while it is printed.

After `export`, Apache Kafka 3.x with the same log.dirs, broker.id and zookeeper.connect continues with all topics,
configs and offsets. `import` does the reverse; the log directory must be empty or written by Apache Kafka.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

from ottla.cli.framework.command import Command
from ottla.cli.framework.options import Option
from ottla.cluster.store import store_export, znodes
from ottla.cluster.store.metadata_store import Create
from ottla.cluster.store.sqlite_store import SESSION_DIRECTORY, SqliteMetadataStore
from ottla.errors import ConfigurationError
from ottla.storage.log_dir import LogDir, owner_of

NOT_EXPORTED = ("/controller", "/controller_epoch")
"""Znodes that are not exported: they belong to the controller of this cluster, and the other cluster has controller
epochs of its own.
"""


def run(args: argparse.Namespace) -> int:
    """Run the action. Raises a KafkaError without changing the metadata if a standalone broker is running, if brokers
    use a shared store during an export or import, if a broker has used the store before an import, or if an option is
    wrong.
    """
    if args.action != "dump" and not args.zookeeper:
        raise ConfigurationError(f"{args.action} needs --zookeeper")
    data = Path(args.data)
    if args.action != "import" and not (data / "registry.sqlite").exists():
        node = data / "metadata"
        hint = f"; the one that several brokers share is in {node}" if (node / "registry.sqlite").exists() else ""
        raise ConfigurationError(f"--data: {data} has no registry.sqlite{hint}")
    if (data / SESSION_DIRECTORY).is_dir():
        return asyncio.run(_run(args, SqliteMetadataStore(data, shared=True)))
    with LogDir.open(data, broker_id=owner_of(data) or 0):
        return asyncio.run(_run(args, SqliteMetadataStore(data)))


async def _run(args: argparse.Namespace, store: SqliteMetadataStore) -> int:
    await store.open()
    try:
        if args.action != "dump" and store.has_peers:
            raise ConfigurationError("--data: brokers use this metadata store; stop them first")
        if args.action == "import":
            return await _import(store, args.zookeeper)
        nodes = await _read(store, "")
    finally:
        await store.close()
    if args.action == "dump":
        print(json.dumps({path: value.decode() for path, value in sorted(nodes.items())}, indent=2))
    else:
        count = store_export.write_tree(args.zookeeper, {p: v for p, v in nodes.items() if p not in NOT_EXPORTED})
        print(f"{count} znodes exported to ZooKeeper at {args.zookeeper}")
    return 0


async def _import(store: SqliteMetadataStore, connect: str) -> int:
    if await store.get(znodes.CONTROLLER_EPOCH) is not None:
        raise ConfigurationError("--data: a broker has used this metadata store; import into a new log directory")
    nodes = store_export.read_tree(connect)
    await store.multi([Create(path, value) for path, value in nodes.items()])
    print(f"{len(nodes)} znodes imported from ZooKeeper at {connect}")
    return 0


async def _read(store: SqliteMetadataStore, path: str) -> dict[str, bytes]:
    nodes: dict[str, bytes] = {}
    for name in await store.children(path):
        child = f"{path}/{name}"
        node = await store.get(child)
        if node is not None:
            nodes[child] = node.value
            nodes |= await _read(store, child)
    return nodes


COMMAND = Command(
    run=run,
    options=(
        Option(
            "action",
            "dump: print the znodes as JSON; export: copy them to ZooKeeper; import: copy them from ZooKeeper",
            choices=("dump", "export", "import"),
        ),
        Option(
            "--data DIR",
            "directory that contains registry.sqlite: log.dirs of a standalone broker, or ottla.metadata.dir",
            default="./ottla-data",
        ),
        Option("--zookeeper HOST:PORT[/CHROOT]", "address of ZooKeeper, required for export and import"),
    ),
)

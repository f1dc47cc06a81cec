"""The metadata store of a standalone broker: print it, export it to ZooKeeper, or import it from there.

The broker on the data directory must not run. After `export` an Apache Kafka 3.x with the same log.dirs, broker.id and
zookeeper.connect goes on with all topics, options and offsets; `import` is the way back, into an empty data directory
or one that Apache Kafka wrote.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

from ottla.cluster.store import store_export, znodes
from ottla.cluster.store.metadata_store import Create
from ottla.cluster.store.sqlite_store import SqliteMetadataStore
from ottla.errors import ConfigurationError
from ottla.storage.log_dir import LogDir, owner_of

NOT_TAKEN = ("/controller", "/controller_epoch")
"""Of the running cluster, not of its data: each side counts its own controllers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ottla metadata`."""
    parser.add_argument(
        "action", choices=("dump", "export", "import"), help="print as JSON, to ZooKeeper, from ZooKeeper"
    )
    parser.add_argument("--data", default="./ottla-data", metavar="DIR", help="the data directory with registry.sqlite")
    parser.add_argument("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="ZooKeeper, for export and import")


def run(args: argparse.Namespace) -> int:
    """Do it; nothing is changed where the data directory is in use."""
    if args.action != "dump" and not args.zookeeper:
        raise ConfigurationError(f"--zookeeper is needed to {args.action}")
    data = Path(args.data)
    if args.action != "import" and not (data / "registry.sqlite").exists():
        raise ConfigurationError(f"--data: {data} has no registry.sqlite")
    with LogDir.open(data, broker_id=owner_of(data) or 0):
        return asyncio.run(_run(args, data))


async def _run(args: argparse.Namespace, data: Path) -> int:
    store = SqliteMetadataStore(data)
    store.open()
    try:
        if args.action == "import":
            return await _import(store, args.zookeeper)
        nodes = await _read(store, "")
    finally:
        await store.close()
    if args.action == "dump":
        print(json.dumps({path: value.decode() for path, value in sorted(nodes.items())}, indent=2))
    else:
        written = store_export.write_tree(args.zookeeper, {p: v for p, v in nodes.items() if p not in NOT_TAKEN})
        print(f"{written} nodes are in ZooKeeper at {args.zookeeper}")
    return 0


async def _import(store: SqliteMetadataStore, connect: str) -> int:
    if await store.get(znodes.CONTROLLER_EPOCH) is not None:
        raise ConfigurationError("--data: a broker has used this metadata store already; import into a new one")
    nodes = store_export.read_tree(connect)
    await store.multi([Create(path, value) for path, value in nodes.items()])
    print(f"{len(nodes)} nodes are taken from ZooKeeper at {connect}")
    return 0


async def _read(store: SqliteMetadataStore, path: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in await store.children(path):
        child = f"{path}/{name}"
        node = await store.get(child)
        if node is not None:
            found[child] = node.value
            found |= await _read(store, child)
    return found

"""Export and import of the tree of persistent znodes in ZooKeeper, for `ottla metadata`.

kazoo is the Python client for ZooKeeper (`pip install 'ottla[cluster]'`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ottla.cluster.store.zookeeper_store import kazoo_needed
from ottla.errors import ConfigurationError, KafkaError, StartupError

if TYPE_CHECKING:
    from kazoo.client import KazooClient

CONNECT_SECONDS = 15.0
OWN = ("/zookeeper",)
"""ZooKeeper's own znodes."""


def read_tree(connect: str) -> dict[str, bytes]:
    """Return the values of the persistent znodes below the chroot of `connect` (`host:port,…/chroot`) by path.

    Parents come before their children; ZooKeeper's own znodes are left out. Raises ConfigurationError if the chroot
    does not exist, StartupError if no ZooKeeper answers or kazoo is not installed, and KafkaError for other errors.
    """
    with _client(connect) as client:
        if not client.exists("/"):
            raise ConfigurationError(
                f"{connect}: the chroot does not exist; use the one of the brokers' zookeeper.connect"
            )
        values: dict[str, bytes] = {}
        _read(client, "/", values)
        return values


def write_tree(connect: str, nodes: Mapping[str, bytes]) -> int:
    """Create the znodes, or replace the values of those that exist. Return the number of znodes.

    Missing parents and the chroot are created. Raises StartupError and KafkaError like `read_tree`.
    """
    with _client(connect) as client:
        client.ensure_path("/")
        for path, value in sorted(nodes.items()):
            if client.exists(path):
                client.set(path, value)
            else:
                client.create(path, value, makepath=True)
    return len(nodes)


def _read(client: KazooClient, path: str, values: dict[str, bytes]) -> None:
    from kazoo.exceptions import NoNodeError

    for name in sorted(client.get_children(path)):
        child = f"{path.rstrip('/')}/{name}"
        if child in OWN:
            continue
        try:
            value, stat = client.get(child)
            if not stat.ephemeralOwner:
                values[child] = value
                _read(client, child, values)
        except NoNodeError:
            values.pop(child, None)  # the znode was deleted meanwhile


@contextmanager
def _client(connect: str) -> Iterator[KazooClient]:
    with kazoo_needed():
        from kazoo.client import KazooClient
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError
    client = KazooClient(hosts=connect, timeout=CONNECT_SECONDS)
    try:
        with warnings.catch_warnings():
            # kazoo warns of a missing chroot, but a read reports it as an error, and a write creates it
            warnings.simplefilter("ignore", UserWarning)
            client.start(CONNECT_SECONDS)
        yield client
    except KazooTimeoutError:
        raise StartupError(f"ZooKeeper at {connect} does not answer within {CONNECT_SECONDS:.0f} s") from None
    except KazooException as error:
        raise KafkaError(f"ZooKeeper at {connect}: {type(error).__name__}: {error}") from error
    finally:
        client.stop()
        client.close()

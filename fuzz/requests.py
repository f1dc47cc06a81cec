"""Sends random requests to a broker over sockets, from clients with all rights, without rights, not authenticated, or
disconnecting early.

    python -m fuzz.requests --count 300000 --connections 4000 --seed 1

No request may cause an exception in the log. After the clients have disconnected, the broker must have no connection,
task or file descriptor of theirs, and no memory except that of topics and groups.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import random
import resource
import socket
import struct
import tempfile
import uuid
from collections import Counter
from typing import Any, NamedTuple

from fuzz.damage import damaged
from ottla.broker.apis import SUPPORTED_APIS
from ottla.broker.server.broker_node import BrokerNode
from ottla.config.broker.broker_config import BrokerConfig
from ottla.protocol.fields import FIXED, Field
from ottla.protocol.header import encode_request_header
from ottla.protocol.message import encode
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.records.builder import BatchBuilder

NAMES = ("t", "u", "group", "tx", "", "*", "../x", "__consumer_offsets", "a.b", "a_b", "0", "x" * 249, "x" * 300, "ä\n")
NUMBERS = (-1, 0, 0, 0, 1, 1, 2, 3, 100, -2, 2**15 - 1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
FEW = {"num_partitions": 20, "count": 20, "timeout_ms": 200, "partition_index": 4, "replication_factor": 1}
"""Maximum values of numbers that would only keep the broker busy."""
EXCLUDED = frozenset({"UpdateFeatures"})
"""APIs that would end the run: transactions of another version."""
VANISHING = 0.1
DAMAGED = 0.15
ANSWER_SECONDS = 0.25
SETTLE_SECONDS, SETTLE_STEP_SECONDS = 30.0, 0.5
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
KINDS = ("super user", "user without rights", "anonymous", "unauthenticated")


class BrokerResources(NamedTuple):
    """The resources of a broker."""

    tasks: int
    descriptors: int
    connections: int
    memory: int


class ErrorCollector(logging.Handler):
    """Collects errors and tracebacks from the log."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Collect an error."""
        if record.exc_info or record.levelno >= logging.ERROR:
            self.texts.append(self.format(record))


def request(r: random.Random) -> bytes:
    """Return a frame with a request of any API and version."""
    row = r.choice([row for row in SUPPORTED_APIS if row.name not in EXCLUDED])
    version = r.choice(row.versions(in_cluster=True))
    body = bytearray()
    encode_request_header(body, row.api.key, version, r.randrange(2**31), r.choice(("c", "", None, "x" * 300)))
    with contextlib.suppress(Exception):  # values that a field cannot hold: the frame ends there
        encode(structure(row.api.request, version, r, 0), version, body)
    data = damaged(bytes(body), r) if r.random() < DAMAGED else bytes(body)
    return struct.pack(">i", len(data)) + data


def structure(cls: Any, version: int, r: random.Random, depth: int) -> Any:
    """Return a structure with any values in the fields of the version."""
    return cls(**{f.name: value(f, version, r, depth) for f in cls.FIELDS if f.in_version(version)})


def value(field: Field, version: int, r: random.Random, depth: int) -> Any:
    """Return any value of the field's type, often a meaningful one."""
    if field.nullable_in(version) and r.random() < 0.2:
        return None
    if field.kind == "array":
        count = r.choice((0, 1, 1, 2, 3)) if depth < 3 else r.randrange(2)
        if isinstance(field.element, Field):
            return [value(field.element, version, r, depth + 1) for _ in range(count)]
        return [structure(field.element, version, r, depth + 1) for _ in range(count)]
    if field.kind == "struct":
        return structure(field.element, version, r, depth + 1)
    if field.kind == "boolean":
        return r.random() < 0.5
    if field.kind in FIXED:
        return number(field, r)
    if field.kind == "uuid":
        return uuid.UUID(int=r.choice((0, 1, r.getrandbits(128))))
    if field.kind == "string":
        return r.choice(NAMES)
    if field.kind == "records":
        return records(r)
    return r.randbytes(r.randrange(40))


def number(field: Field, r: random.Random) -> float:
    """Return a number that fits into the field."""
    bits = 8 * FIXED[field.kind][1]
    if field.kind == "float64":
        return r.choice((0.0, 1.0, -1.0, 1e300, float("nan"), float("inf")))
    chosen = r.choice(NUMBERS)
    if field.kind.startswith("u"):
        return abs(chosen) % (1 << bits)
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return min(max(low, chosen), min(high, FEW.get(field.name, high)))


def records(r: random.Random) -> bytes:
    """Return a record batch, valid or damaged."""
    builder = BatchBuilder(bytearray(2000))
    builder.append(r.choice((0, 1, 2**62)), r.choice((None, b"k")), r.randbytes(r.randrange(100)))
    ids = (r.choice((-1, 0, 1, 2**63 - 1)), r.choice((-1, 0, 32767)), r.choice((-1, 0, 2**31 - 1)))
    made = bytes(builder.close(*ids, transactional=r.random() < 0.2))
    return damaged(made, r) if r.random() < 0.3 else made


class Client:
    """A client with one connection at a time, which it opens again when it is closed."""

    def __init__(self, kind: str, ports: dict[str, int], r: random.Random) -> None:
        self.kind = kind
        self._port = ports["PLAINTEXT" if kind == "anonymous" else "SASL_PLAINTEXT"]
        self._random = r
        self._sock: socket.socket | None = None

    async def send_request(self, outcomes: Counter[str]) -> None:
        """Send a request, and wait for the response unless this client disconnects early."""
        loop = asyncio.get_running_loop()
        try:
            sock = self._sock = self._sock or await self._connect(loop)
            await loop.sock_sendall(sock, request(self._random))
            if self._random.random() < VANISHING:
                outcomes["vanished"] += 1
                self.close()
                return
            async with asyncio.timeout(ANSWER_SECONDS):
                size = int.from_bytes(await _exactly(loop, sock, 4), "big")
                await _exactly(loop, sock, size)
            outcomes["answered"] += 1
        except TimeoutError:
            outcomes["waiting"] += 1
            self.close()
        except OSError:
            outcomes["disconnected"] += 1
            self.close()

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        sock = socket.socket()
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, ("127.0.0.1", self._port))
            if self.kind in ("super user", "user without rights"):
                name = b"admin" if self.kind == "super user" else b"alice"
                await loop.sock_sendall(sock, _login(name))
                for _ in range(2):
                    await _exactly(loop, sock, int.from_bytes(await _exactly(loop, sock, 4), "big"))
        except BaseException:
            sock.close()
            raise
        return sock

    def close(self) -> None:
        """Disconnect."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None


def _login(name: bytes) -> bytes:
    out = bytearray()
    for message, version in (
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=b"\0" + name + b"\0secret"), 1),
    ):
        body = bytearray()
        encode_request_header(body, message.API_KEY, version, 1, "c")
        encode(message, version, body)
        out += struct.pack(">i", len(body)) + body
    return bytes(out)


async def _exactly(loop: asyncio.AbstractEventLoop, sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await loop.sock_recv(sock, size - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data


def broker_resources(node: BrokerNode) -> BrokerResources:
    """Return the current resources of a broker."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as statm:
        pages = int(statm.read().split()[1])
    connections = sum(len(listener.connections) for listener in node._listeners)
    return BrokerResources(
        len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd")), connections, pages * resource.getpagesize()
    )


def config(data: str, *, authorizer: bool) -> BrokerConfig:
    """Return the configs of a broker with a listener without authentication and one with SASL."""
    options = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "log.dirs": data,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{MODULE} required user_admin="secret" user_alice="secret";'
        ),
        "connection.failed.authentication.delay.ms": "10",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "share.coordinator.state.topic.num.partitions": "3",
        "request.timeout.ms": "1000",
    }
    if authorizer:
        options |= {"authorizer.class.name": "AclAuthorizer", "super.users": "User:admin"}
    return BrokerConfig(options)


async def run(
    count: int, connections: int, seed: int, *, authorizer: bool = True
) -> tuple[list[str], BrokerResources, BrokerResources, Counter[str]]:
    """Send a number of requests over a number of connections."""
    complaints = ErrorCollector()
    logger = logging.getLogger("ottla")
    logger.addHandler(complaints)
    logging.getLogger("asyncio").addHandler(complaints)
    outcomes: Counter[str] = Counter()
    try:
        with tempfile.TemporaryDirectory() as data:
            async with BrokerNode(config(data, authorizer=authorizer)) as node:
                ports = {endpoint.name: endpoint.port for endpoint in node.endpoints}
                await _round(count // 10, connections, ports, seed + 1, outcomes)  # imports, codecs, buffers
                await _settled(node)
                before = broker_resources(node)
                running = asyncio.all_tasks()
                await _round(count, connections, ports, seed, outcomes)
                await _settled(node, before.tasks)
                after = broker_resources(node)
                complaints.texts += [f"task left: {task}" for task in _new_tasks(running, before, after)]
    finally:
        logger.removeHandler(complaints)
        logging.getLogger("asyncio").removeHandler(complaints)
    return complaints.texts, before, after, outcomes


async def _round(count: int, connections: int, ports: dict[str, int], seed: int, outcomes: Counter[str]) -> None:
    clients = [Client(KINDS[n % len(KINDS)], ports, random.Random(seed * 10_000 + n)) for n in range(connections)]

    async def work(client: Client, requests: int) -> None:
        for _ in range(requests):
            await client.send_request(outcomes)

    await asyncio.gather(*(work(client, max(1, count // connections)) for client in clients))
    for client in clients:
        client.close()


def _new_tasks(
    running: set[asyncio.Task[Any]], before: BrokerResources, after: BrokerResources
) -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - running if after.tasks > before.tasks else set()


async def _settled(node: BrokerNode, tasks: int | None = None) -> None:
    """Wait until the broker has closed its clients' connections and has at most the given number of tasks."""
    for _ in range(int(SETTLE_SECONDS / SETTLE_STEP_SECONDS)):
        await asyncio.sleep(SETTLE_STEP_SECONDS)
        now = broker_resources(node)
        if not now.connections and (tasks is None or now.tasks <= tasks):
            return


def main() -> int:
    """Run with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300_000)
    parser.add_argument("--connections", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--open", action="store_true", help="without an authorizer: everybody may do everything")
    args = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(f"seed {args.seed}", flush=True)
    errors, before, after, outcomes = asyncio.run(
        run(args.count, args.connections, args.seed, authorizer=not args.open)
    )
    print(dict(outcomes))
    print(f"before {before}\nafter  {after}")
    for text in errors[:20]:
        print(text)
    print(f"{len(errors)} errors in the log")
    return bool(errors) or after.connections > 0


if __name__ == "__main__":
    raise SystemExit(main())

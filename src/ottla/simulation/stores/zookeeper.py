"""ZooKeeper in memory: one tree of znodes, sessions that expire, and a replacement for kazoo's client that simulates
the network.

The production store (`ZooKeeperMetadataStore`) uses this client. A write may be applied although its response is lost;
a watch may fire late; a client that is cut off loses its session when the service expires it, and is notified later.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ottla.simulation.event_loop import SimulatedLoop
from ottla.simulation.network import Network
from ottla.simulation.process import Process, ProcessState, current

HOST: Final = "10.0.0.250"
TICK_SECONDS: Final = 1.0
SUSPEND_SHARE: Final = 2 / 3
"""The share of the session timeout after which a client that gets no answers closes its connection."""

Watch = Callable[[Any], None]


@dataclass
class Node:
    """A znode: its value, the transaction ids of its creation and last change, its version, owner and children, and the
    number of the next sequential znode below it.
    """

    value: bytes
    created: int
    modified: int = 0
    version: int = 0
    owner: int = 0
    next_number: int = 0
    children: dict[str, None] = field(default_factory=dict)

    def restore(self, value: bytes, version: int, modified: int) -> None:
        self.value, self.version, self.modified = value, version, modified


class Stat(NamedTuple):
    """The version, transaction ids and owner of a znode, in kazoo's names."""

    version: int
    czxid: int
    mzxid: int
    ephemeralOwner: int  # noqa: N815  (kazoo's name)


@dataclass
class Session:
    """A session, as the service stores it. Times are in seconds."""

    id: int
    password: bytes
    timeout: float
    last_contact: float
    client: SimulatedKazoo | None = None
    """The client of the session; None if the client was stopped while cut off, or if its process has died."""
    ephemeral: dict[str, None] = field(default_factory=dict)
    watches: dict[tuple[str, str], dict[Watch, None]] = field(default_factory=dict)
    """Watches by kind (`data`, `children`) and path."""


class Event(NamedTuple):
    """The event that a watch is called with. Stands in for kazoo's WatchedEvent."""

    type: str
    path: str


class ZooKeeper:
    """The ZooKeeper service of a simulation: a single server that does not fail."""

    def __init__(self, loop: SimulatedLoop, network: Network, rng: random.Random) -> None:
        self.loop = loop
        self.network = network
        self.rng = rng
        self.nodes: dict[str, Node] = {"": Node(b"", 0)}
        self.sessions: dict[int, Session] = {}
        self.clients: dict[SimulatedKazoo, None] = {}
        """The clients that were started, without those that were stopped or whose process has died."""
        self.zxid = 0
        self.lost_responses = 0.0
        """The share of requests that are executed and whose response is lost, together with the connection."""
        self.on_change: Callable[[str], object] | None = None
        self.on_write: Callable[[str, bytes | None], object] | None = None
        """Called for each operation of a client that changes a znode, with the path in the request and the new value;
        None stands for a deletion.
        """
        self._next_session = 0
        loop.call_outside(loop.time() + TICK_SECONDS, self._tick)

    def is_reachable(self, process: Process) -> bool:
        return not (self.network.is_cut(process.host, HOST) or self.network.is_cut(HOST, process.host))

    # Sessions

    def open_session(self, client: SimulatedKazoo, timeout: float) -> Session:
        self._next_session += 1
        number = 0x1000 + self._next_session
        session = Session(number, self.rng.randbytes(16), timeout, self.loop.time(), client)
        self.sessions[number] = session
        return session

    def end_session(self, session: Session) -> None:
        """Delete the session and its ephemeral znodes, and fire the watches; do nothing if it has ended already."""
        if self.sessions.pop(session.id, None) is None:
            return
        self._note(f"session 0x{session.id:x} ended")
        for path in list(session.ephemeral):
            if path in self.nodes:
                self._fire(self._delete(path))

    def _tick(self) -> None:
        """Update the last contact of the sessions whose clients are alive, end the sessions whose clients have been
        away for longer than the timeout, and let the clients check their connections. Called every TICK_SECONDS.
        """
        now = self.loop.time()
        for session in list(self.sessions.values()):
            client = session.client
            if client is not None and client.is_alive:
                session.last_contact = now
            elif now - session.last_contact > session.timeout:
                self.end_session(session)
        for client in list(self.clients):
            client.check()
        self.loop.call_outside(now + TICK_SECONDS, self._tick)

    @property
    def session_count(self) -> int:
        return len(self.sessions)

    def node(self, path: str) -> Node | None:
        """Return a znode; None if it does not exist."""
        return self.nodes.get(path)

    def expire_sessions_of(self, host: str) -> None:
        """End the sessions of a host although its clients are alive."""
        for session in [s for s in self.sessions.values() if s.client is not None and s.client.process.host == host]:
            self.expire(session.id)

    def expire(self, session_id: int) -> None:
        """End a session although its client is alive."""
        session = self.sessions.get(session_id)
        if session is not None:
            self.end_session(session)
            if session.client is not None:
                session.client.check()

    # The tree

    def stat(self, path: str) -> Stat | None:
        node = self.nodes.get(path)
        return None if node is None else Stat(node.version, node.created, node.modified, node.owner)

    def apply(self, operations: list[tuple[Any, ...]], session: Session) -> list[Any]:
        """Execute all of the operations or none. Return the result of each operation; if one fails, an exception for
        each operation.
        """
        from kazoo import exceptions

        undo: list[Callable[[], object]] = []
        changed: list[tuple[str, str]] = []
        results: list[Any] = []
        self.zxid += 1
        for number, operation in enumerate(operations):
            try:
                results.append(self._apply(operation, session, undo, changed))
            except exceptions.KazooException as error:
                for step in reversed(undo):
                    step()
                rolled_back = [exceptions.RolledBackError() for _ in range(number)]
                later = [exceptions.RuntimeInconsistency() for _ in operations[number + 1 :]]
                return [*rolled_back, error, *later]
        for kind, path, *rest in operations:
            self._note(f"{kind} {path}")
            if self.on_write is not None and kind != "check":
                self.on_write(path, None if kind == "delete" else rest[0])
        self._fire(changed)
        return results

    def _apply(
        self,
        operation: tuple[Any, ...],
        session: Session,
        undo: list[Callable[[], object]],
        changed: list[tuple[str, str]],
    ) -> Any:
        from kazoo import exceptions

        kind, path, *rest = operation
        if kind == "create":
            return self._create(path, *rest, session=session, undo=undo, changed=changed)
        node = self.nodes.get(path)
        if node is None:
            raise exceptions.NoNodeError(path)
        if rest[-1] not in (-1, node.version):
            raise exceptions.BadVersionError(path)
        if kind == "set":
            undo.append(functools.partial(node.restore, node.value, node.version, node.modified))
            node.value, node.version, node.modified = rest[0], node.version + 1, self.zxid
            changed.append(("data", path))
        elif kind == "delete":
            if node.children:
                raise exceptions.NotEmptyError(path)
            changed += self._delete(path)
            undo.append(lambda: self._insert(path, node))
        return True

    def _create(
        self,
        path: str,
        value: bytes,
        ephemeral: bool,
        sequence: bool,
        *,
        session: Session,
        undo: list[Callable[[], object]],
        changed: list[tuple[str, str]],
    ) -> str:
        from kazoo import exceptions

        parent = self.nodes.get(path.rpartition("/")[0])
        if parent is None:
            raise exceptions.NoNodeError(path)
        if sequence:
            path += f"{parent.next_number:010d}"
            parent.next_number += 1
        if path in self.nodes:
            raise exceptions.NodeExistsError(path)
        self._insert(path, Node(value, self.zxid, self.zxid, owner=session.id if ephemeral else 0))
        undo.append(functools.partial(self._delete, path))
        changed += [("data", path), ("children", path.rpartition("/")[0])]
        return path

    def _insert(self, path: str, node: Node) -> None:
        parent, _, name = path.rpartition("/")
        self.nodes[path] = node
        self.nodes[parent].children[name] = None
        if node.owner in self.sessions:
            self.sessions[node.owner].ephemeral[path] = None

    def _delete(self, path: str) -> list[tuple[str, str]]:
        parent, _, name = path.rpartition("/")
        node = self.nodes.pop(path)
        del self.nodes[parent].children[name]
        if node.owner in self.sessions:
            self.sessions[node.owner].ephemeral.pop(path, None)
        return [("data", path), ("children", path), ("children", parent)]

    def _fire(self, changed: list[tuple[str, str]]) -> None:
        for session in self.sessions.values():
            for key in changed:
                for watch in session.watches.pop(key, {}):
                    if session.client is not None:
                        session.client.deliver(watch, Event("CHANGED", key[1]))

    def _note(self, text: str) -> None:
        if self.on_change is not None:
            self.on_change(text)


class Result:
    """Stands in for kazoo's AsyncResult."""

    def __init__(self) -> None:
        self.value: Any = None
        self.exception: BaseException | None = None
        self.is_set = False
        self._callbacks: list[Callable[[Result], None]] = []

    def rawlink(self, callback: Callable[[Result], None]) -> None:
        if self.is_set:
            callback(self)
        else:
            self._callbacks.append(callback)

    def set(self, value: Any, exception: BaseException | None = None) -> None:
        if self.is_set:
            return
        self.is_set, self.value, self.exception = True, value, exception
        for callback in self._callbacks:
            callback(self)


class ConnectionEvent(NamedTuple):
    """Stands in for the event that `KazooClient.start_async` returns. `is_set` lets the client connect, and returns
    whether it has succeeded.
    """

    client: SimulatedKazoo

    def is_set(self) -> bool:
        from kazoo.handlers.threading import KazooTimeoutError

        try:
            self.client.start(0.0)
        except KazooTimeoutError:
            return False
        return True


class SimulatedHandler:
    """Stands in for kazoo's handler, which runs functions in threads. Here the caller runs them."""

    def spawn(self, call: Callable[..., None], *arguments: Any) -> None:
        call(*arguments)


class SimulatedKazoo:
    """Stands in for `kazoo.client.KazooClient`."""

    service: ZooKeeper
    """The service that clients connect to. The simulation sets it before it creates a client."""

    def __init__(self, hosts: str, client_id: tuple[int, bytes] | None = None, timeout: float = 10.0, **options: Any):
        self.chroot = ""
        self.handler = SimulatedHandler()
        self.process = current()
        self._context: Context = copy_context()
        self._timeout = timeout
        self._earlier = client_id
        self._session: Session | None = None
        self._state = "LOST"
        self._listeners: list[Callable[[str], None]] = []
        self._pending: dict[Result, None] = {}
        self._last_request = 0.0
        self._last_event = 0.0
        self._silent_since: float | None = None

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        return None if self._session is None else (self._session.id, self._session.password)

    @property
    def is_alive(self) -> bool:
        """Whether the service receives heartbeats of this client: it has a session, and its process runs and reaches
        the service.
        """
        return (
            self._session is not None
            and self.process.state is ProcessState.RUNNING
            and self.service.is_reachable(self.process)
        )

    def add_listener(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    def start_async(self) -> ConnectionEvent:
        return ConnectionEvent(self)

    def start(self, timeout: float) -> None:
        from kazoo.handlers.threading import KazooTimeoutError

        if not self.service.is_reachable(self.process):
            raise KazooTimeoutError("connection time-out")
        earlier = None if self._earlier is None else self.service.sessions.get(self._earlier[0])
        if earlier is not None:
            earlier.client = self
            self._session = earlier
        else:
            self._session = self.service.open_session(self, self._timeout)
        self._state = "CONNECTED"
        self.service.clients[self] = None
        self.process.on_death.append(self._on_death)

    def _on_death(self) -> None:
        self.service.clients.pop(self, None)
        if self._session is not None:
            self._session.client = None

    def stop(self) -> None:
        session, self._session = self._session, None
        self.service.clients.pop(self, None)
        if session is not None and self.service.is_reachable(self.process):
            self.service.end_session(session)
        elif session is not None:
            session.client = None

    def close(self) -> None:
        pass

    def ensure_path(self, path: str, acl: Any = None) -> None:
        parent = ""
        for name in path.strip("/").split("/"):
            parent += f"/{name}"
            if parent not in self.service.nodes:
                assert self._session is not None
                self.service.apply([("create", parent, b"", False, False)], self._session)

    def exists(self, path: str) -> Stat | None:
        return self.service.stat(path)

    # Calls

    def exists_async(self, path: str, watch: Watch | None = None) -> Result:
        return self._read(path, "data", watch, lambda node: node)

    def get_async(self, path: str, watch: Watch | None = None) -> Result:
        return self._read(path, "", None, lambda node: self._checked(path, node))

    def get_children_async(self, path: str, watch: Watch | None = None) -> Result:
        full = self._full(path)

        def names(node: Any) -> list[str]:
            self._checked(path, node)
            return list(self.service.nodes[full].children)

        return self._read(path, "children", watch, names)

    def transaction(self) -> Transaction:
        return Transaction(self)

    def _full(self, path: str) -> str:
        return (self.chroot + path).rstrip("/")

    def _checked(self, path: str, node: Any) -> Any:
        from kazoo.exceptions import NoNodeError

        if node is None:
            raise NoNodeError(path)
        return node

    def _read(self, path: str, kind: str, watch: Watch | None, answer: Callable[[Any], Any]) -> Result:
        full = self._full(path)

        def execute(session: Session) -> Any:
            node = self.service.nodes.get(full)
            if watch is not None and (node is not None or kind == "data"):
                session.watches.setdefault((kind, full), {})[watch] = None
            return answer(None if node is None else (node.value, self.service.stat(full)))

        return self.call(execute)

    def call(self, execute: Callable[[Session], Any]) -> Result:
        """Send a request to the service, and return its Result, as kazoo's asynchronous methods do. The request fails
        with ConnectionLoss if the client is not connected, or loses the connection before the response arrives.
        """
        from kazoo.exceptions import ConnectionLoss

        result = Result()
        if self._state != "CONNECTED" or self._session is None:
            result.set(None, ConnectionLoss())
            return result
        self._pending[result] = None
        session = self._session
        self._last_request = self.service.network.send_after_delay(
            self.process.host, HOST, self._last_request, lambda: self._execute(execute, session, result)
        )
        return result

    def _execute(self, execute: Callable[[Session], Any], session: Session, result: Result) -> None:
        if session.id not in self.service.sessions or self._session is not session or result not in self._pending:
            return  # the connection it came from is gone
        try:
            value, error = execute(session), None
        except Exception as raised:
            value, error = None, raised
        if self.service.lost_responses and self.service.rng.random() < self.service.lost_responses:
            self._later(self._disconnect)
            return
        self._later(self._finish, result, value, error)

    def _finish(self, result: Result, value: Any, error: BaseException | None) -> None:
        if self._pending.pop(result, False) is None:
            result.set(value, error)

    def deliver(self, watch: Watch, event: Event) -> None:
        self._later(watch, event)

    def _later(self, call: Callable[..., None], *arguments: Any) -> None:
        """Schedule a call in the client's process after a delay. Calls keep their order."""
        self._last_event = self.service.network.send_after_delay(
            HOST, self.process.host, self._last_event, lambda: self._enter(call, arguments)
        )

    def _enter(self, call: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        loop = self.service.loop
        loop.call_soon(call, *arguments, context=self._context.copy())

    # Connection

    def check(self) -> None:
        """Schedule `_disconnect` if the service has been unreachable for too long; schedule `_reconnect` if it is
        reachable and the connection or the session has ended. Called on each tick of the service, and by `expire`.
        """
        if self.process.state is not ProcessState.RUNNING or self._session is None:
            return
        now = self.service.loop.time()
        if not self.service.is_reachable(self.process):
            self._silent_since = now if self._silent_since is None else self._silent_since
            if self._state == "CONNECTED" and now - self._silent_since > SUSPEND_SHARE * self._timeout:
                self._enter(self._disconnect, ())
            return
        self._silent_since = None
        if self._state != "CONNECTED" or self._session.id not in self.service.sessions:
            self._enter(self._reconnect, ())

    def _disconnect(self) -> None:
        """Lose the connection: calls without a result fail, although they may have been executed."""
        from kazoo.exceptions import ConnectionLoss

        if self._state != "CONNECTED":
            return
        self._state = "SUSPENDED"
        pending, self._pending = self._pending, {}
        self._notify("SUSPENDED")
        for result in pending:
            result.set(None, ConnectionLoss())

    def _reconnect(self) -> None:
        session = self._session
        if session is None or not self.service.is_reachable(self.process):
            return
        if session.id in self.service.sessions:
            if self._state != "CONNECTED":
                self._state = "CONNECTED"
                self._notify("CONNECTED")
            return
        self._disconnect()
        self._notify("LOST")
        watches = [watch for of_path in session.watches.values() for watch in of_path]
        self._session = self.service.open_session(self, self._timeout)
        self._state = "CONNECTED"
        for watch in watches:
            watch(Event("NONE", ""))
        self._notify("CONNECTED")

    def _notify(self, state: str) -> None:
        for listener in self._listeners:
            listener(state)


class Transaction:
    """Stands in for kazoo's TransactionRequest."""

    def __init__(self, client: SimulatedKazoo) -> None:
        self._client = client
        self._operations: list[tuple[Any, ...]] = []

    def create(self, path: str, value: bytes, acl: Any, ephemeral: bool, sequence: bool) -> None:
        self._operations.append(("create", self._client._full(path), value, ephemeral, sequence))

    def set_data(self, path: str, value: bytes, version: int) -> None:
        self._operations.append(("set", self._client._full(path), value, version))

    def delete(self, path: str, version: int) -> None:
        self._operations.append(("delete", self._client._full(path), version))

    def check(self, path: str, version: int) -> None:
        self._operations.append(("check", self._client._full(path), version))

    def commit_async(self) -> Result:
        return self._client.call(lambda session: self._client.service.apply(self._operations, session))

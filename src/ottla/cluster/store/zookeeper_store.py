"""The metadata store of a cluster: ZooKeeper, through kazoo.

Two properties of ZooKeeper are handled here:

- **If the connection is lost during a write**, the write may have been executed. It is sent again unless the tree
  shows that it was (see `_was_done`).
- **If a session expires, its ephemeral znodes are deleted.** Their creators register with `on_new_session`, and create
  them again.

An attempt to read or write fails with MetadataStoreTimeoutError if ZooKeeper does not answer within the session
timeout.

kazoo has its own threads; results and events are passed to the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    MetadataStoreError,
    MetadataStoreTimeoutError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Set,
    Watcher,
    ZNode,
)
from ottla.errors import StartupError
from ottla.latency import LatencyHistogram
from ottla.logs import reason_of

if TYPE_CHECKING:
    from kazoo.client import KazooClient, TransactionRequest

log = logging.getLogger("ottla.cluster")
kazoo_log = logging.getLogger("ottla.cluster.kazoo")
"""kazoo's logger. Only critical messages pass by default, because kazoo logs every attempt to connect.

This module logs connection problems instead.
"""

FIRST_REPORT_SECONDS: Final = 1.0
"""Time in seconds after which `open` logs that ZooKeeper does not answer."""
REPORT_SECONDS: Final = 30.0
"""Interval in seconds at which the store logs that it still waits for ZooKeeper."""
CONNECTED_CHECK_SECONDS: Final = 0.005
"""Interval in seconds at which `open` checks whether the client is connected."""
RETRY_SECONDS: Final = 0.05
"""Delay in seconds before a call is repeated after the connection was lost. Also kazoo's first delay before it connects
again; later ones grow to about a second.
"""


@contextmanager
def kazoo_needed() -> Iterator[None]:
    """Turn an ImportError of kazoo in the block into StartupError (context manager)."""
    try:
        yield
    except ImportError:
        raise StartupError("ZooKeeper needs the package kazoo: pip install 'ottla[cluster]'") from None


class Security(NamedTuple):
    """The TLS configuration of connections, and the protection of znodes. Files are in PEM format."""

    tls: bool = False
    key_store: str | None = None
    """File with the key and certificates of this client; None: no client certificate."""
    key_password: str | None = None
    trust_store: str | None = None
    checks_hostname: bool = True
    set_acl: bool = False
    """Whether znodes, except `/consumers` and those below it, are created with ACLs so that only their creator may
    change them (`zookeeper.set.acl`).
    """

    def options(self) -> dict[str, Any]:
        if not self.tls:
            return {}
        key = {"certfile": self.key_store, "keyfile": self.key_store, "keyfile_password": self.key_password}
        trust = {"ca": self.trust_store, "verify_certs": True, "check_hostname": self.checks_hostname}
        return {"use_ssl": True, **(key if self.key_store else {}), **trust}


class Session(NamedTuple):
    """The id and password of a session. Any client that has them can take over the session, or end it."""

    id: int
    password: bytes


class ZooKeeperMetadataStore:
    """A `MetadataStore` in ZooKeeper, below the chroot of the connect string. Not thread-safe: event loop only."""

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int = 18_000,
        connection_timeout_ms: int = 18_000,
        security: Security = Security(),  # noqa: B008  (frozen)
        makes_chroot: bool = True,
    ) -> None:
        """`connect` is `host:port,…/chroot`.

        `makes_chroot`: whether to create a missing chroot, as Kafka's brokers do. Tools must not create it, because a
        typing error would then look like an empty cluster.
        """
        self._connect = connect
        self._session_seconds = session_timeout_ms / 1000
        self._connection_seconds = connection_timeout_ms / 1000
        self._security = security
        self._makes_chroot = makes_chroot
        self._client: KazooClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: list[Callable[[], Awaitable[None]]] = []
        self._session_id: int | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.state: str = "CONNECTED"
        """The state of the connection: CONNECTED (also before the first connection), SUSPENDED or LOST."""
        self.disconnects: int = 0
        self.expirations: int = 0
        self._waits_since: float | None = None
        self._wait_report: asyncio.TimerHandle | None = None
        self.request_times: LatencyHistogram = LatencyHistogram()

    def on_new_session(self, listener: Callable[[], Awaitable[None]]) -> None:
        """Call `listener` when a new session has replaced an expired one.

        The ephemeral znodes and watches of the old session are lost.
        """
        self._listeners.append(listener)

    @property
    def session_id(self) -> int | None:
        """The id of the latest session; None before `open` has connected."""
        return self._session_id

    @property
    def session(self) -> Session | None:
        """The current session with its password; None while the store is not connected (see `session_id`)."""
        client_id = None if self._client is None else self._client.client_id
        return None if client_id is None else Session(*client_id)

    async def end_session(self, session: Session) -> None:
        """End a session that is no longer used. It may have already expired."""
        client = self._new_client(session)
        try:
            await asyncio.to_thread(client.start, self._connection_seconds)
        except Exception as error:
            # the session will expire
            log.warning(
                "Cannot end session 0x%x with ZooKeeper at %s; it will expire: %s",
                session.id,
                self._connect,
                reason_of(error),
            )
        finally:
            await _end(client)

    def _new_client(self, session: Session | None = None) -> KazooClient:
        """Return a new client without the chroot, which is not started. If `session` is given, the client asks
        ZooKeeper for that session.
        """
        with kazoo_needed():
            from kazoo.client import KazooClient
            from kazoo.retry import KazooRetry
        retry = KazooRetry(max_tries=-1, delay=RETRY_SECONDS, max_delay=1.0)
        hosts = self._connect.partition("/")[0]
        if kazoo_log.level == logging.NOTSET:
            kazoo_log.setLevel(logging.CRITICAL)
        options = {"timeout": self._session_seconds, "connection_retry": retry, "logger": kazoo_log}
        return KazooClient(hosts, client_id=session, **options, **self._security.options())

    async def open(self) -> None:
        """Connect.

        Create a missing chroot if `makes_chroot` is set, else raise StartupError. Also raises StartupError if kazoo is
        not installed, or ZooKeeper does not answer within the connection timeout.
        """
        client = self._new_client()
        self._loop = asyncio.get_running_loop()
        _, slash, chroot = self._connect.partition("/")
        client.add_listener(self._state_changed)
        self._client = client
        self._begin_wait(FIRST_REPORT_SECONDS)
        try:
            # not client.start, for whose thread a broker that is stopped meanwhile would have to wait
            connected = client.start_async()
            async with asyncio.timeout(self._connection_seconds):
                while not connected.is_set():  # noqa: ASYNC110 - kazoo sets it in a thread
                    await asyncio.sleep(CONNECTED_CHECK_SECONDS)
        except TimeoutError:
            await self.close()
            raise StartupError(
                f"zookeeper.connect: ZooKeeper at {self._connect} does not answer within "
                f"{self._connection_seconds:g} s; check the address, or raise zookeeper.connection.timeout.ms"
            ) from None
        self._end_wait()
        if chroot:
            # kazoo would warn of a missing chroot before it can be created
            await self._find_chroot(slash + chroot)
            client.chroot = slash + chroot
        self._session_id = client.client_id[0]

    async def _find_chroot(self, chroot: str) -> None:
        client = self._connected()
        if self._makes_chroot:
            await asyncio.to_thread(client.ensure_path, chroot, self._acl(""))
        elif await asyncio.to_thread(client.exists, chroot) is None:
            await self.close()
            hosts = self._connect.removesuffix(chroot)
            raise StartupError(
                f"zookeeper.connect: ZooKeeper at {hosts} has no cluster below {chroot}, which a cluster's first "
                "broker creates; check the path"
            )

    async def get(self, path: str, watch: Watcher | None = None) -> ZNode | None:
        if watch is not None:
            # exists() also watches a znode that does not exist
            await self._read("exists_async", path, watch)
        try:
            value, stat = await self._read("get_async", path, None)
        except NoNodeError:
            return None
        return ZNode(value, stat.version, stat.czxid, stat.mzxid)

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """Return the sorted names of the znode's children; none if the znode does not exist."""
        try:
            return sorted(await self._read("get_children_async", path, watch))
        except NoNodeError:
            return []

    async def multi(self, operations: Sequence[Operation]) -> None:
        """Execute all operations in one transaction, or none. They are durable on return."""
        while True:
            try:
                return self._check(operations, await self._call(self._transaction(operations).commit_async))
            except ConnectionLostError:
                if await self._was_done(operations):
                    return None

    async def close(self) -> None:
        """Close the store. If the store is connected, this ends the session, and ZooKeeper deletes the session's
        ephemeral znodes.
        """
        client, self._client = self._client, None
        self._end_wait(is_answered=False)
        self._listeners.clear()
        if client is not None and self._session_id is None and client.client_id is None:
            # There is no session to end. kazoo waits for its attempt to connect, so nothing waits for kazoo.
            client.handler.spawn(_abandon, client)
        elif client is not None:
            await _end(client)
        for task in self._tasks:
            task.cancel()

    # Outages

    @property
    def waits_for(self) -> str:
        """A text about how long ZooKeeper has not answered, with its address; empty if the store is not waiting."""
        if self._waits_since is None:
            return ""
        seconds = time.monotonic() - self._waits_since
        return f"ZooKeeper at {self._connect} has not answered for {seconds:.0f} s"

    def _begin_wait(self, report_seconds: float) -> None:
        self._waits_since = time.monotonic()
        self._schedule_report(report_seconds)

    def _schedule_report(self, seconds: float) -> None:
        assert self._loop is not None
        self._wait_report = self._loop.call_later(seconds, self._report_wait)

    def _report_wait(self) -> None:
        log.warning("Waiting: %s; check zookeeper.connect and the ensemble", self.waits_for)
        self._schedule_report(REPORT_SECONDS)

    def _end_wait(self, *, is_answered: bool = True) -> None:
        if self._waits_since is None:
            return
        seconds, self._waits_since = time.monotonic() - self._waits_since, None
        if self._wait_report is not None:
            self._wait_report.cancel()
        if is_answered and seconds >= FIRST_REPORT_SECONDS:
            log.info("ZooKeeper at %s responded after %.1f s", self._connect, seconds)

    # Calls

    async def _read(self, call: str, path: str, watch: Watcher | None) -> Any:
        """Call a method of kazoo that reads a znode. Repeat the call if the connection is lost during it."""
        while True:
            client = self._connected()
            watcher = None if watch is None else _LoopWatch(self._call_soon, watch)
            try:
                return await self._call(lambda: getattr(client, call)(path, watch=watcher))  # noqa: B023 - called at once
            except ConnectionLostError:
                await asyncio.sleep(RETRY_SECONDS)

    async def _call(self, call: Callable[[], Any]) -> Any:
        """Execute an asynchronous call of kazoo, and return its result.

        Raises MetadataStoreTimeoutError after the session timeout, and the MetadataStoreError for an error of kazoo.
        """
        assert self._loop is not None, "call open() first"
        future: asyncio.Future[Any] = self._loop.create_future()
        began = time.perf_counter()
        call().rawlink(lambda result: self._pass_result(future, result))
        try:
            async with asyncio.timeout(self._session_seconds):
                return await future
        except TimeoutError:
            raise MetadataStoreTimeoutError(f"ZooKeeper at {self._connect} does not answer") from None
        except Exception as error:
            raise _translate(error, self._connect) from error
        finally:
            self.request_times.record(time.perf_counter() - began)

    def _pass_result(self, future: asyncio.Future[Any], result: Any) -> None:
        """Pass a result to the event loop. Called in a thread of kazoo."""
        assert self._loop is not None
        value, error = (None, result.exception) if result.exception is not None else (result.value, None)
        self._call_soon(_complete, future, value, error)

    def _call_soon(self, call: Callable[..., None], *arguments: Any) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            pass  # the event loop is closed

    def _connected(self) -> KazooClient:
        if self._client is None:
            raise MetadataStoreError("the session with ZooKeeper has ended")
        return self._client

    # Writes

    def _acl(self, path: str) -> list[Any] | None:
        """Return ZooKeeper's ACL of a new znode; None for ZooKeeper's default, in which every client may do
        everything.
        """
        if not self._security.set_acl or znodes.is_open(path):
            return None
        from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

        return [*CREATOR_ALL_ACL] if znodes.is_secret(path) else [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]

    def _transaction(self, operations: Sequence[Operation]) -> TransactionRequest:
        transaction = self._connected().transaction()
        for operation in operations:
            match operation:
                case Create(path, value, ephemeral, sequence):
                    transaction.create(path, value, self._acl(path), ephemeral, sequence)
                case Set(path, value, version):
                    transaction.set_data(path, value, version)
                case Delete(path, version):
                    transaction.delete(path, version)
                case Check(path, version):
                    transaction.check(path, version)
        return transaction

    def _check(self, operations: Sequence[Operation], results: Sequence[Any]) -> None:
        """Raise the error of the operation for which a transaction was rejected. Do nothing if it was executed.

        After a rejection, the results of the other operations only say that they were not executed.
        """
        from kazoo.exceptions import RolledBackError, RuntimeInconsistency

        errors = [
            (operation, result)
            for operation, result in zip(operations, results, strict=False)
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency)
        ]
        for operation, error in errors:
            raise _translate(error, operation.path)

    async def _was_done(self, operations: Sequence[Operation]) -> bool:
        """Return whether the tree shows that a transaction whose result was lost was executed.

        Checking one of its writes is enough, because all or none are executed. A Check, a Set without a version and a
        sequential Create leave nothing to check. A transaction of only such operations counts as not executed.

        If another client has meanwhile changed the znode of the Set that is checked, the transaction counts as not
        executed. When it is repeated, it fails, because the Set names a version.
        """
        await asyncio.sleep(RETRY_SECONDS)
        for operation in operations:
            match operation:
                case Create(path, value, ephemeral, False):
                    own_node = await self._owned(path)
                    return (
                        own_node is not None
                        and own_node[0] == value
                        and (not ephemeral or own_node[1] == self._session_id)
                    )
                case Set(path, value, version) if version != ANY_VERSION:
                    node = await self.get(path)
                    return node is not None and node[:2] == (value, version + 1)
                case Delete(path, _):
                    return await self.get(path) is None
        return False

    async def _owned(self, path: str) -> tuple[bytes, int] | None:
        """Return a znode's value and the session that owns it (0: none); None if it does not exist."""
        try:
            value, stat = await self._read("get_async", path, None)
        except NoNodeError:
            return None
        return value, stat.ephemeralOwner

    # Sessions

    def _state_changed(self, state: str) -> None:
        """Pass a change of the connection's state to the event loop. Called in a thread of kazoo."""
        # read here: on the event loop, the connection may be lost again, and then kazoo has no id
        client_id = None if self._client is None else self._client.client_id
        self._call_soon(self._on_state_change, state, None if client_id is None else client_id[0])

    def _on_state_change(self, state: str, session_id: int | None) -> None:
        before = self._session_id
        if self._client is None or before is None:
            return
        self.state = state
        if state != "CONNECTED":
            self.disconnects += 1
            what = "session with" if state == "LOST" else "connection to"
            log.warning("Lost %s ZooKeeper at %s; reconnecting", what, self._connect)
            if self._waits_since is None:
                self._begin_wait(REPORT_SECONDS)
            return
        self._end_wait()
        if session_id is not None and session_id != before:
            self._session_id = session_id
            self.expirations += 1
            log.warning(
                "Session 0x%x with ZooKeeper at %s has expired; continuing with the new session 0x%x",
                before,
                self._connect,
                session_id,
            )
            for listener in self._listeners:
                self._start(listener())
        else:
            log.info("Reconnected to ZooKeeper at %s with the same session 0x%x", self._connect, before)

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@dataclass(frozen=True)
class _LoopWatch:
    """A watch for kazoo: called in a thread of kazoo, it calls a watcher on the event loop.

    Two watches with the same watcher are equal, so that kazoo stores only one of them if a znode is read repeatedly by
    the same method.
    """

    call_soon: Callable[..., None]
    watch: Watcher

    def __call__(self, event: object) -> None:
        self.call_soon(self.watch)


class ConnectionLostError(MetadataStoreError):
    """The connection was lost during a call, which may have been executed."""


def _abandon(client: KazooClient) -> None:
    """Stop a client that is not connected."""
    from kazoo.exceptions import WriterNotClosedException

    with suppress(WriterNotClosedException):  # its attempt to connect takes longer than kazoo waits
        client.stop()


async def _end(client: KazooClient) -> None:
    await asyncio.to_thread(client.stop)
    await asyncio.to_thread(client.close)


def _complete(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


def _translate(error: Exception, where: str) -> Exception:
    """Return the store's error for an error of kazoo. Other errors are returned unchanged."""
    from kazoo import exceptions as theirs

    kinds: dict[type[Exception], type[MetadataStoreError]] = {
        theirs.NoNodeError: NoNodeError,
        theirs.NodeExistsError: NodeExistsError,
        theirs.BadVersionError: BadVersionError,
        theirs.NotEmptyError: NotEmptyError,
        theirs.ConnectionLoss: ConnectionLostError,
        theirs.SessionExpiredError: ConnectionLostError,
        theirs.ConnectionClosedError: ConnectionLostError,
    }
    for kind, ours in kinds.items():
        if isinstance(error, kind):
            return ours(where)
    if isinstance(error, theirs.KazooException):
        return MetadataStoreError(f"ZooKeeper at {where}: {type(error).__name__} {error}".rstrip())
    return error

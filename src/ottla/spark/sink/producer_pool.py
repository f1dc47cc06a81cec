"""The producers of a Python worker, which stay open after a task, so that the next task can use them.

A new producer needs a thread, connections and metadata. Therefore a task uses an idle producer of its worker that has
the same options, if there is one. The task initializes its transactional id (`take_over`), as with a new producer: the
coordinator aborts the open transaction of an earlier attempt of the task, and fences the producer of that attempt,
wherever it is running. Correctness therefore does not depend on the state of the idle producer, even with failures,
retries, speculative execution and lost executors.

A producer returns to the pool only after a commit, or if it has not begun a transaction. After any error it is closed.
A timer closes producers that have been idle for `IDLE_SECONDS`; all idle ones are closed when the interpreter exits. A
producer that is older than `LIFE_SECONDS` does not return to the pool, so that renewed certificates take effect. The
pool of a forked process starts empty.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.producer.producer import KafkaProducer

MOST_IDLE: Final = 2
"""Maximum number of idle producers in a process. Spark runs one task at a time in a worker."""
IDLE_SECONDS: Final = 30.0
LIFE_SECONDS: Final = 600.0

Options = Mapping[str, str]


class TaskProducer(KafkaProducer):
    """A producer that is used by several tasks, one after the other, each with its transactional id."""

    def take_over(self, transactional_id: str) -> None:
        """Initialize the transactional id of a task. Raises the errors of init_transactions()."""
        self._run(self._core.transactions.take_over(transactional_id))


class TaskClients(NamedTuple):
    """A producer, an admin client, and the monotonic time of their creation."""

    producer: TaskProducer
    admin: KafkaAdminClient
    created_at: float

    def close(self) -> None:
        """Close the producer and the admin client."""
        self.admin.close()
        self.producer.close()


class _Idle(NamedTuple):
    key: tuple[tuple[str, str], ...]
    clients: TaskClients
    since: float


class ProducerPool:
    """The idle producers of this process. Thread-safe."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS, life_seconds: float = LIFE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._life_seconds = life_seconds
        self.forget()

    def forget(self) -> None:
        """Remove all producers without closing them. In a forked process, they belong to its parent."""
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []
        self._timer: threading.Timer | None = None

    @contextmanager
    def clients(self, options: Options, connection: Options) -> Iterator[TaskClients]:
        """Context manager: yield clients with these options, which no other task uses until the context exits. They are
        closed if the block raises; otherwise they become idle, unless they are too old.
        """
        key = tuple(sorted(options.items()))
        clients = self._take(key) or _start(options, connection)
        try:
            yield clients
        except BaseException:
            clients.close()
            raise
        self._put(key, clients)

    def _take(self, key: tuple[tuple[str, str], ...]) -> TaskClients | None:
        with self._lock:
            idle = next((entry for entry in reversed(self._idle) if entry.key == key), None)
            if idle is None:
                return None
            self._idle.remove(idle)
        return idle.clients

    def _put(self, key: tuple[tuple[str, str], ...], clients: TaskClients) -> None:
        now = time.monotonic()
        if now - clients.created_at > self._life_seconds:
            clients.close()
            return
        with self._lock:
            self._idle.append(_Idle(key, clients, now))
            surplus = self._idle[:-MOST_IDLE]
            del self._idle[:-MOST_IDLE]
            self._watch()
        for idle in surplus:
            idle.clients.close()

    def _watch(self) -> None:
        """Start the timer that closes idle producers, unless it is running or no producer is idle. The caller holds
        the lock.
        """
        if self._timer is None and self._idle:
            self._timer = threading.Timer(self._idle_seconds, self._close_expired)
            self._timer.daemon = True
            self._timer.start()

    def _close_expired(self) -> None:
        oldest = time.monotonic() - self._idle_seconds
        with self._lock:
            self._timer = None
            expired = [idle for idle in self._idle if idle.since <= oldest]
            self._idle = [idle for idle in self._idle if idle.since > oldest]
            self._watch()
        for idle in expired:
            idle.clients.close()

    def close(self) -> None:
        """Close all idle producers."""
        with self._lock:
            idle, self._idle = self._idle, []
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        for entry in idle:
            entry.clients.close()


def _start(options: Options, connection: Options) -> TaskClients:
    # Kafka's default has the transactional id in the client id, and this producer will have many.
    defaults = {"client.id": "ottla-sink", "transactional.id": "ottla-sink"}
    producer = TaskProducer({**defaults, **options})
    try:
        return TaskClients(producer, KafkaAdminClient(connection), time.monotonic())
    except BaseException:
        producer.close()
        raise


POOL: Final = ProducerPool()
"""The pool of this process."""

os.register_at_fork(after_in_child=POOL.forget)
atexit.register(POOL.close)

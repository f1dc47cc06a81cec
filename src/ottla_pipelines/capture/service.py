"""The capture as a service, which opens its clients again after failures of the database or the brokers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final

import psycopg

from ottla import KafkaAdminClient, KafkaProducer
from ottla.backoff import ExponentialBackoff
from ottla.cli.framework.signals import GraceExpired
from ottla.errors import KafkaError
from ottla_pipelines.capture.capture import Capture
from ottla_pipelines.capture.postgresql import PostgresSource
from ottla_pipelines.capture.topics import Topics

log: Final = logging.getLogger("ottla_pipelines")

RETRY_SECONDS: Final = (1.0, 60.0)
CLOSE_SECONDS: Final = 2.0
"""Maximum time in seconds to abort an open transaction. If that fails, the next process does it."""
PRODUCER: Final = {
    # The longest that brokers accept by default. The next process aborts the transaction of a killed one at once.
    "transaction.timeout.ms": 900_000,
    "compression.type": "lz4",
    "linger.ms": 20,
}


@dataclass(frozen=True)
class CaptureOptions:
    """The database, its tables and the clients' configs.

    `name`: the name of the slot, the publication, the consumer group and the transactional id (with the prefix ottla_),
    and the first part of the topics' names.
    """

    database: str
    name: str
    tables: Sequence[str]
    clients: Mapping[str, Any]
    topic_configs: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def opened(options: CaptureOptions) -> Iterator[Capture]:
    """Yield a capture that has its own clients. They are closed when the context exits."""
    name = f"ottla_{options.name}"
    with ExitStack() as stack:
        source = PostgresSource(options.database, name, options.tables)
        stack.callback(source.close)
        clients = dict(options.clients)
        admin = stack.enter_context(KafkaAdminClient(clients))
        producer = KafkaProducer({**PRODUCER, **clients, "transactional.id": name})
        # Records that are pending are in a transaction that will not be committed.
        stack.callback(producer.close, CLOSE_SECONDS)
        topics = Topics(admin, clients, options.name, options.topic_configs, time.sleep)
        yield Capture(source, topics, producer, admin, name)


def run(options: CaptureOptions, stopping: Event) -> None:
    """Capture changes until the event is set. Raises psycopg.Error and KafkaError if a retry would not help."""
    backoff, failures = ExponentialBackoff(*RETRY_SECONDS), 0
    while not stopping.is_set():
        try:
            with opened(options) as capture:
                try:
                    capture.run(stopping)
                finally:
                    failures = 0 if capture.steps else failures
        except GraceExpired:
            log.warning(
                "Stopping the capture %s before the end of its last step, for example because the brokers or the "
                "database do not respond. When it is started again, it continues at the committed position, or copies "
                "the rows again if it has not copied all of them",
                options.name,
            )
            return
        except (psycopg.OperationalError, KafkaError, OSError) as error:
            if isinstance(error, KafkaError) and not error.retriable:
                raise
            delay = backoff.backoff(failures)
            failures += 1
            log.error(
                "Cannot capture changes for the topics %s.…%s: %s",
                options.name,
                "" if stopping.is_set() else f"; retrying in {delay:.0f} s",
                " ".join(str(error).split()) or type(error).__name__,
            )
            stopping.wait(delay)

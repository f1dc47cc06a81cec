"""The keys of a captured table's topic, which a TRUNCATE deletes."""

from __future__ import annotations

import pytest

pytest.importorskip("psycopg")

from ottla import KafkaAdminClient, KafkaProducer
from ottla.broker.embedded import Broker
from ottla_pipelines.capture.topics import Topics


def test_keys_are_those_of_committed_rows_and_of_the_open_transaction(ottla_broker: Broker, ottla_topic: str) -> None:
    clients = {"bootstrap.servers": ottla_broker.bootstrap_servers}

    def producer() -> KafkaProducer:
        opened = KafkaProducer({**clients, "transactional.id": ottla_topic})
        opened.init_transactions()
        return opened

    def send(opened: KafkaProducer, **rows: bytes | None) -> None:
        opened.begin_transaction()
        for key, value in rows.items():
            opened.send(ottla_topic, value, key=key.encode(), partition=0)
        opened.flush()

    with KafkaAdminClient(clients) as admin, producer() as first:
        send(first, committed=b"1", truncated=b"1", deleted=b"1")
        first.commit_transaction()
        send(first, deleted=None)
        first.commit_transaction()
        send(first, truncated=None, aborted=b"1")
        with producer() as second:  # which aborts the transaction of the first one
            send(second, inserted=b"1", committed=None)
            keys = Topics(admin, clients, "shop", {}, lambda _: None).keys(ottla_topic)
    assert sorted(keys) == [b"committed", b"inserted", b"truncated"]

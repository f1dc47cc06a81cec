"""Our share consumer against Apache Kafka: acknowledgements of all types, two members, the two modes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts import apache_kafka
from tests.interop.kafka_jars import kafka, run_tool

from ottla import AcknowledgeType, KafkaAdminClient, KafkaProducer, KafkaShareConsumer, NewTopic, TopicPartition
from ottla.net.ports import free_port

pytestmark = [pytest.mark.interop, pytest.mark.slow]

RECORDS = 200


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    reason = apache_kafka.missing()
    if reason:
        pytest.skip(reason)
    directory: Path = tmp_path_factory.mktemp("kafka")
    with kafka(directory, free_port(in_a_row=2)) as bootstrap:
        yield bootstrap


def begin(bootstrap: str, name: str) -> None:
    """Create a topic with records, and a group of its name that reads from the first one."""
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 2, 1)], wait_for_metadata=True)
    alter = ("--alter", "--entity-type", "groups", "--entity-name", name)
    reset = ("--add-config", "share.auto.offset.reset=earliest")
    done = run_tool("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, *alter, *reset)
    assert done.returncode == 0, done.stderr
    with KafkaProducer(bootstrap_servers=bootstrap, batch_size=500) as producer:
        for value in range(RECORDS):
            producer.send(name, b"%d" % value)


def test_two_share_group_members_accept_each_record_once(apache: str) -> None:
    begin(apache, "shared")
    options: dict[str, Any] = {"bootstrap_servers": apache, "group_id": "shared", "max_poll_records": 10}
    accepted: list[int] = []
    with KafkaShareConsumer("shared", **options) as one, KafkaShareConsumer("shared", **options) as two:
        deadline = time.monotonic() + 60
        while len(accepted) < RECORDS:
            assert time.monotonic() < deadline, f"{len(accepted)} of {RECORDS} records came"
            for member in (one, two):
                accepted += (int(r.value) for rows in member.poll(timeout_ms=200).values() for r in rows)
                assert all(error is None for error in member.commit().values())
        assert one.acquisition_lock_timeout_ms() == 30_000
    assert sorted(accepted) == list(range(RECORDS))


def test_released_rejected_and_renewed_records_are_handled_as_by_java(apache: str) -> None:
    begin(apache, "decided")
    released: set[tuple[TopicPartition, int]] = set()
    renewed: set[tuple[TopicPartition, int]] = set()
    accepted: list[tuple[TopicPartition, int]] = []
    rejected = 0
    with KafkaShareConsumer(
        "decided",
        bootstrap_servers=apache,
        group_id="decided",
        share_acknowledgement_mode="explicit",
        share_acquire_mode="record_limit",
        max_poll_records=25,
    ) as consumer:
        deadline = time.monotonic() + 60
        while len(accepted) + rejected < RECORDS:
            assert time.monotonic() < deadline, f"{len(accepted)} accepted, {rejected} rejected"
            batches = consumer.poll(timeout_ms=500)
            assert sum(map(len, batches.values())) <= 25
            for tp, records in batches.items():
                for record in records:
                    place = (tp, record.offset)
                    if record.offset % 10 == 3 and place not in released:
                        released.add(place)
                        consumer.acknowledge(record, AcknowledgeType.RELEASE)
                    elif record.offset % 10 == 5 and place not in renewed:
                        renewed.add(place)
                        consumer.acknowledge(record, AcknowledgeType.RENEW)
                    elif record.offset % 10 == 7:
                        rejected += 1
                        consumer.acknowledge(record, AcknowledgeType.REJECT)
                    else:
                        assert record.delivery_count == (2 if place in released else 1)
                        accepted.append(place)
                        consumer.acknowledge(record)
        assert all(error is None for error in consumer.commit().values())
    assert len(set(accepted)) == len(accepted)
    assert released
    assert renewed

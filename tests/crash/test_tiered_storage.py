"""kill -9 of a broker while it copies segments to S3, Azure or Google Cloud, or deletes them: no record is lost, and
no object is left behind.

CI runs one seed for each store. At length:

    OTTLA_TIERED_RUNS=50 pytest tests/crash/test_tiered_storage.py -k s3 -n 2
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.crash.process import BrokerProcess
from tests.crash.s3_server import BUCKET, s3_server
from tests.crash.slow_store import SlowStore
from tests.crash.store_emulators import azure_server, gcs_server
from tests.crash.store_front import StoreFront
from tests.interop.eventually import eventually

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition
from ottla.client.admin.topics.offsets import OffsetSpec
from ottla.remote_log.remote_storage import ObjectStorage

pytestmark = pytest.mark.slow

TP = TopicPartition("tiered", 0)
RECORDS = 250
KILLS = 2
SECONDS = 60.0
SEEDS = range(3, 3 + int(os.environ.get("OTTLA_TIERED_RUNS", "1")))


def broker_on(data: Path, url: str) -> BrokerProcess:
    return BrokerProcess(
        data,
        remote_log_storage_system_enable="true",
        rsm_config_url=url,
        remote_log_manager_task_interval_ms=50,
        remote_log_manager_task_retry_backoff_ms=50,
        remote_log_metadata_topic_num_partitions=2,
        log_retention_check_interval_ms=50,
        replica_high_watermark_checkpoint_interval_ms=100,
    )


def produce(address: str, errors: list[BaseException]) -> None:
    """Write numbered records, and retry while the broker is down."""
    try:
        with KafkaProducer(
            bootstrap_servers=address, linger_ms=0, batch_size=1, delivery_timeout_ms=60_000, retry_backoff_ms=20
        ) as producer:
            for number in range(RECORDS):
                producer.send(TP.topic, b"%06d" % number + b"x" * 494, partition=0)
                time.sleep(0.01)
    except BaseException as error:
        errors.append(error)


def read(address: str) -> list[int]:
    numbers: list[int] = []
    with KafkaConsumer(bootstrap_servers=address, group_id=None, auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])
        deadline = time.monotonic() + SECONDS
        while len(numbers) < RECORDS:
            assert time.monotonic() < deadline, f"only {len(numbers)} records were read"
            numbers += [int((r.value or b"")[:6]) for r in consumer.poll(200).get(TP, [])]
    return numbers


def server_of(
    scheme: str, monkeypatch: pytest.MonkeyPatch, directory: Path, seed: int
) -> AbstractContextManager[SlowStore | StoreFront]:
    """Return the slow server of a store."""
    if scheme == "s3":
        return s3_server(monkeypatch, seed)
    return (azure_server if scheme == "az" else gcs_server)(monkeypatch, directory, seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scheme", ["s3", "az", "gs"])
def test_killed_broker_loses_no_record_and_leaves_no_object(
    scheme: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, url = random.Random(seed), f"{scheme}://{BUCKET}/kafka"
    server_and_store = server_of(scheme, monkeypatch, tmp_path / "store", seed)
    with server_and_store as server, broker_on(tmp_path / "data", url) as broker:
        storage = ObjectStorage(url, {})
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            settings = {"remote.storage.enable": "true", "segment.bytes": "5000", "local.retention.bytes": "5000"}
            admin.create_topics([NewTopic(TP.topic, 1, 1, topic_configs=settings)])
        errors: list[BaseException] = []
        producing = threading.Thread(target=produce, args=(broker.bootstrap, errors))
        producing.start()
        for _ in range(KILLS):
            time.sleep(0.3 + rng.random() / 2)
            server.set_down(True)
            time.sleep(rng.random() / 2)
            broker.kill()
            broker.start()
            time.sleep(rng.random() / 2)
            server.set_down(False)
        producing.join()
        assert not errors
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:

            def offset(time_spec: int) -> int:
                return admin.list_offsets({TP: OffsetSpec(time_spec)})[TP].offset

            eventually(lambda: offset(-4) > RECORDS - 30, SECONDS)
            assert read(broker.bootstrap) == list(range(RECORDS))
            assert server.failures > 5

            def copies() -> Counter[str]:
                return Counter(name.rpartition("/")[2][:20] for name in storage.list() if name.endswith(".log"))

            # interrupted copies are deleted
            eventually(lambda: set(copies().values()) == {1} and len(storage.list()) == 5 * len(copies()), SECONDS)
            admin.delete_topics([TP.topic])
            before = len(storage.list())
            eventually(lambda: len(storage.list()) < before, SECONDS)
        broker.kill()
        broker.start()
        eventually(lambda: not storage.list(), SECONDS)

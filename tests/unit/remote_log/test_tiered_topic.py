"""A tiered topic of one broker: copy, local deletion, reads, retention and topic deletion."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.monitoring.scraping import Scraped, scraped
from tests.unit.remote_log.tiered_topic import SECONDS, SEGMENT_RECORDS, TieredTopic, configs, wait_until

from ottla import KafkaProducer, KafkaShareConsumer
from ottla.broker.embedded import Broker
from ottla.client.admin.configs import ConfigResource, ConfigResourceType
from ottla.client.admin.topics.offsets import OffsetSpec
from ottla.errors import InvalidConfigError, KafkaError
from ottla.remote_log import remote_storage
from ottla.remote_log.remote_storage import RemoteFile, RemoteStorageError
from ottla.storage.checkpoints import RECOVERY_POINTS
from ottla.storage.log_dir import CLEAN_SHUTDOWN

TOPIC_METRICS = "kafka_server_brokertopicmetrics_"


def scrape(broker: Broker) -> Scraped:
    return asyncio.run_coroutine_threadsafe(scraped(broker.nodes[0]), broker._loop).result()  # type: ignore[arg-type]


def test_records_and_offsets_are_read_from_remote_storage(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store"
    with Broker({**configs(url), "rsm.config.chunk.bytes": 65536}, data_dir=tmp_path / "data") as broker:
        topic = TieredTopic(broker)
        topic.produce(60)
        topic.wait_local_start(56)
        assert topic.copied_bases() == list(range(0, 56, SEGMENT_RECORDS))
        assert topic.read(60) == list(range(60))
        assert topic.read(60, 33, max_partition_fetch_bytes=1, isolation_level="read_committed") == list(range(33, 60))

        def offsets(spec: OffsetSpec) -> int:
            return topic.admin.list_offsets({topic.tp: spec})[topic.tp].offset

        specs = [OffsetSpec.earliest(), OffsetSpec(-4), OffsetSpec(-5), OffsetSpec(-6), OffsetSpec.latest()]
        assert [offsets(spec) for spec in specs] == [0, 56, 55, 56, 60]
        assert [offsets(OffsetSpec(time)) for time in (0, 1_000, 1_031, 1_057, 2_000)] == [0, 0, 31, 57, -1]
        assert offsets(OffsetSpec(-3)) == 59
        topic.admin.delete_records({topic.tp: 10})
        wait_until(lambda: topic.copied_bases()[0] == 7)
        assert offsets(OffsetSpec.earliest()) == 10
        # the deletion of the first segment has begun, and is recorded as finished when its objects are deleted
        wait_until(lambda: scrape(broker).value(f"{TOPIC_METRICS}remotelogmetadatacount", topic="t") == 7)
        metrics = scrape(broker)
        for name, value in (
            ("remotecopyrequests_total", 8),
            ("remotecopylagsegments", 0),
            ("remotelogmetadatacount", 7),
        ):
            assert metrics.value(TOPIC_METRICS + name, topic="t") == value
        assert metrics.value(f"{TOPIC_METRICS}remotefetchbytes_total", topic="t") > 10_000

    # without its checkpoint, the log start offset is read from remote storage
    (tmp_path / "data" / "log-start-offset-checkpoint").unlink()
    with Broker(configs(url), data_dir=tmp_path / "data") as broker:
        topic = TieredTopic(broker)
        wait_until(lambda: topic.partition().log.log_start_offset == 10)
        topic.produce(40, 60)
        topic.wait_local_start(98)
        assert topic.read(100, 10) == list(range(10, 100))
        topic.admin.delete_topics(["t"])
        wait_until(lambda: not topic.objects())


def test_closed_segments_of_an_idle_topic_are_copied_after_a_crash(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Broker(configs(), data_dir=data) as broker:
        topic = TieredTopic(broker, remote_log_copy_disable="true", local_retention_bytes="-2")
        topic.produce(30)
    # as after a crash before the closed segments were flushed
    (data / CLEAN_SHUTDOWN).unlink()
    points = data / RECOVERY_POINTS
    points.write_text(re.sub("^t 0 [0-9]+$", "t 0 0", points.read_text(), flags=re.MULTILINE))
    with Broker(configs(), data_dir=data) as broker:
        topic = TieredTopic(broker)
        settings = {"remote.log.copy.disable": "false", "local.retention.bytes": "1"}
        topic.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "t", settings)])
        topic.wait_local_start(28)
        assert topic.copied_bases() == list(range(0, 28, SEGMENT_RECORDS))


def test_retention_and_disabling_tiered_storage_delete_remote_segments() -> None:
    with Broker(configs()) as broker:
        topic = TieredTopic(broker)
        topic.produce(60)
        topic.wait_local_start(56)
        alter(topic, **{"retention.bytes": "5000", "local.retention.bytes": "1"})
        wait_until(lambda: topic.copied_bases() == [35, 42, 49])
        assert topic.partition().log.log_start_offset == 35
        assert topic.read(60, 35) == list(range(35, 60))
        with pytest.raises(InvalidConfigError, match="without deleting remote data"):
            alter(topic, **{"remote.storage.enable": "false"})
        alter(topic, **{"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"})
        wait_until(lambda: not topic.objects())
        wait_until(lambda: topic.partition().log.log_start_offset == 56)
        assert topic.read(60, 56) == list(range(56, 60))


def alter(topic: TieredTopic, **settings: str) -> None:
    topic.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic.tp.topic, settings)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cleanup.policy": "compact"}, "compacted"),
        ({"retention.ms": "10", "local.retention.ms": "11"}, "must not be more"),
        ({"retention.bytes": "10", "local.retention.bytes": "-1"}, "must not be more"),
        ({"remote.log.copy.disable": "true", "local.retention.ms": "1"}, "identical"),
    ],
)
def test_contradictory_configs_are_rejected(settings: dict[str, Any], message: str, tiered: Broker) -> None:
    with pytest.raises(KafkaError, match=message):
        TieredTopic(tiered, "bad", **{key.replace(".", "_"): value for key, value in settings.items()})


@pytest.fixture(scope="module")
def tiered() -> object:
    with Broker(configs()) as broker:
        yield broker


def test_aborted_transactions_across_remote_and_local_segments_are_skipped(tiered: Broker) -> None:
    topic = TieredTopic(tiered, "transactions")
    committed: list[int] = []
    with KafkaProducer(
        bootstrap_servers=tiered.bootstrap_servers, transactional_id="x", linger_ms=0, batch_size=1
    ) as producer:
        producer.init_transactions()
        for number in range(20):
            producer.begin_transaction()
            for i in range(3):
                producer.send("transactions", b"%06d" % (number * 3 + i) + b"x" * 194)
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                committed += range(number * 3, number * 3 + 3)
    end = 20 * 4
    wait_until(lambda: topic.partition().log.local_log_start_offset > end - 10)
    assert topic.read(end, isolation_level="read_committed") == committed
    assert topic.read(end) == list(range(60))
    assert any(name.endswith(RemoteFile.TRANSACTION_INDEX.value) for name in topic.objects())


def test_remote_storage_outage_delays_copies_and_reads_without_loss(
    tiered: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="ottla.remote_log")
    topic = TieredTopic(tiered, "outage")
    storage = tiered.nodes[0]._tiered_storage
    assert storage is not None
    put = storage.storage.put
    written: list[str] = []

    def failing_put(name: str, content: Path | bytes) -> None:
        put(name, content)
        written.append(name)
        if len(written) % 3 == 0:
            raise RemoteStorageError("the response was lost")

    monkeypatch.setattr(storage.storage, "put", failing_put)
    topic.produce(20)
    wait_until(lambda: len(written) > 6)
    assert topic.partition().log.local_log_start_offset == 0, "no segment is copied completely"
    monkeypatch.setattr(storage.storage, "put", put)
    topic.wait_local_start(14)
    wait_until(lambda: sum("outage" in name for name in remote_names(tiered)) == 2 * 5)

    def no_get(name: str, start: int = 0, length: int = 0) -> bytes:
        raise RemoteStorageError("the store is down")

    get_range = storage.storage.get_range
    monkeypatch.setattr(storage.storage, "get_range", no_get)
    with pytest.raises(AssertionError, match="only"):
        topic.read_within(20, 0.3)
    monkeypatch.setattr(storage.storage, "get_range", get_range)
    assert topic.read(20) == list(range(20))

    def no_delete(names: Sequence[str]) -> None:
        raise RemoteStorageError("the store is down")

    def to_delete() -> tuple[float, float]:
        now = scrape(tiered)
        names = ("remotedeletelagsegments", "remotedeletelagbytes")
        segments, nbytes = (now.value(f"{TOPIC_METRICS}{name}", topic="outage") for name in names)
        return segments, nbytes

    delete = storage.storage.delete
    monkeypatch.setattr(storage.storage, "delete", no_delete)
    topic.admin.delete_records({topic.tp: 14})
    wait_until(lambda: to_delete()[0] == 2 and to_delete()[1] > 1000)
    monkeypatch.setattr(storage.storage, "delete", delete)
    wait_until(lambda: to_delete() == (0, 0))
    assert not any("outage" in name for name in remote_names(tiered))


def test_share_group_reads_from_remote_storage(tiered: Broker) -> None:
    topic = TieredTopic(tiered, "shared")
    topic.produce(20)
    topic.wait_local_start(14)
    group = ConfigResource(ConfigResourceType.GROUP, "g", {"share.auto.offset.reset": "earliest"})
    topic.admin.alter_configs([group])
    numbers: set[int] = set()
    servers = tiered.bootstrap_servers
    with KafkaShareConsumer("shared", bootstrap_servers=servers, group_id="g") as consumer:
        deadline = time.monotonic() + SECONDS
        while len(numbers) < 20:
            assert time.monotonic() < deadline
            for records in consumer.poll(200).values():
                numbers |= {int((record.value or b"")[:6]) for record in records}
    assert numbers == set(range(20))


def remote_names(broker: Broker) -> Sequence[str]:
    storage = broker.nodes[0]._tiered_storage
    assert storage is not None
    assert isinstance(storage.storage, remote_storage.ObjectStorage)
    return storage.storage.list()


def test_slow_remote_storage_delays_remote_reads_only(tiered: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = TieredTopic(tiered, "slow")
    topic.produce(30)
    topic.wait_local_start(28)
    storage = tiered.nodes[0]._tiered_storage
    assert storage is not None
    get_range = storage.storage.get_range
    calls: list[str] = []

    def slow_get(name: str, start: int, length: int) -> bytes:
        calls.append(name)
        time.sleep(0.7)  # longer than remote.fetch.max.wait.ms
        return get_range(name, start, length)

    monkeypatch.setattr(storage.storage, "get_range", slow_get)
    assert topic.read(30, 28) == [28, 29]
    assert not calls
    assert topic.read(7) == list(range(7))
    assert calls, "the data is in the cache"
    assert len(set(calls)) == len(calls), "chunks of timed out reads are cached and not downloaded again"

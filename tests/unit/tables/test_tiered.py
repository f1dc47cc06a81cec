"""Tables of topics whose oldest records are in remote storage only."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.remote_log.tiered_topic import TieredTopic, configs

from ottla import Broker, TopicPartition
from ottla.client.admin.configs import TOPIC, ConfigResource
from ottla_tables.formats.factory import TableFactory
from ottla_tables.formats.table import TableIdentity
from ottla_tables.log.lookup import Lookup
from ottla_tables.log.tiered import TieredRecords
from ottla_tables.opening import WriterFactory
from ottla_tables.parquet import read_batches
from ottla_tables.service import TableService

SETTINGS = {"ottla.table.format": "parquet", "ottla.table.flush.bytes": "6000"}


def test_records_in_remote_storage_are_written_to_the_table(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Broker(configs()) as broker:
        topic = TieredTopic(broker, "tiered")
        topic.produce(60)
        topic.wait_local_start(50)
        topic.admin.delete_records({TopicPartition("tiered", 0): 10})
        topic.admin.incremental_alter_configs({ConfigResource(TOPIC, "tiered"): SETTINGS})
        lookup, factory = Lookup(topic.admin), TableFactory(tmp_path, {})
        writers = WriterFactory(factory, TieredRecords(lookup, {"bootstrap.servers": broker.bootstrap_servers}))
        service = TableService(lookup, writers.open, ["tiered"])
        assert service.write_all() == 50, "in several commits"
        (tiered,) = lookup.topics(["tiered"])
        table = factory.open_existing(TableIdentity("tiered", tiered.topic_id), tiered.config)
        assert table is not None
        batches = [batch for file in table.load().files for batch in read_batches(table, file.path)]
        offsets = sorted(offset for batch in batches for offset in batch.column("offset").to_pylist())
        assert offsets == list(range(10, 60))
        assert "were deleted" not in caplog.text, "the table has been created later"
        topic.produce(40, 60)
        topic.wait_local_start(90)
        topic.admin.delete_records({TopicPartition("tiered", 0): 65})
        at_once = service.step()
        assert at_once > 0, "what has left the disk does not wait for ottla.table.flush.ms"
        assert at_once + service.write_all() == 35
        assert "tiered-0: offsets 60 to 64 were deleted before they were written to the table" in caplog.text
        topic.admin.close()

"""State that a broker reads at its start: records of coordinators and of Kafka's controllers, and files beside logs.

A damaged record or file may only raise an error of `ottla.errors`; it must not prevent the start.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.damage import damaged
from ottla.clock import SYSTEM_CLOCK
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.cluster.migration import kraft
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.group_coordinator import GroupCoordinator
from ottla.coordinator.transaction import transaction_records
from ottla.errors import KafkaError
from ottla.protocol.message import Data, encode
from ottla.protocol.messages import (
    consumer_group_records,
    consumer_protocol,
    group_records,
    metadata_records,
    share_group_records,
)
from ottla.protocol.messages import transaction_records as transaction_messages
from ottla.protocol.versioned import decode_versioned, encode_versioned
from ottla.protocol.wire import write_uvarint
from ottla.records.builder import BatchBuilder
from ottla.storage import checkpoints
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.partition_metadata import read_topic_id
from ottla.storage.producer_state import ProducerStates
from ottla.storage.txn_index import TransactionIndex

RECORD_TYPES = 20
"""Numbers of record types, some of them not in use."""


def _data_classes(*modules: Any) -> list[type[Data]]:
    classes = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    return [cls for cls in classes if issubclass(cls, Data) and cls.VERSIONS]


GROUP_DATA = _data_classes(group_records, consumer_group_records, share_group_records)
OTHER_DATA = _data_classes(consumer_protocol, transaction_messages)


def _sample(cls: type[Data], r: random.Random, prefix: int | None = None) -> bytes:
    version = r.choice(cls.VERSIONS)
    data = encode_versioned(cls(), version, prefix)
    return damaged(data, r) if r.random() < 0.7 else data + r.randbytes(r.randrange(4))


@cache
def _membership() -> GroupCoordinator:
    return GroupCoordinator(BrokerConfig({}), SYSTEM_CLOCK, lambda: ClusterImage("c"))


def group_state(r: random.Random) -> None:
    """Replay records of `__consumer_offsets` with any combination of key and value."""
    key = _sample(r.choice(GROUP_DATA), r, r.randrange(RECORD_TYPES))
    value = None if r.random() < 0.1 else _sample(r.choice(GROUP_DATA), r)
    with contextlib.suppress(KafkaError):
        _membership().replay(key, value, live=False)


def versioned_data(r: random.Random) -> None:
    """Decode data that group members exchange, and records of `__transaction_state`."""
    cls = r.choice(OTHER_DATA)
    data = _sample(cls, r)
    with contextlib.suppress(KafkaError):
        decode_versioned(cls, data)
    with contextlib.suppress(KafkaError):
        transaction_records.read_key(data)
    with contextlib.suppress(KafkaError):
        transaction_records.read_transaction("t", data)


def controller_metadata(r: random.Random) -> None:
    """Replay records of Apache Kafka's metadata log."""
    with tempfile.TemporaryDirectory() as folder:
        builder = BatchBuilder(bytearray(20_000), 0)
        for _ in range(r.randint(1, 6)):
            number, cls = r.choice(list(metadata_records.RECORDS.items()))
            version = r.choice(cls.VERSIONS)
            out = bytearray()
            for part in (1, number, version):
                write_uvarint(out, part)
            builder.append(1, None, damaged(bytes(encode(cls(), version, out)), r))
        (Path(folder) / "00000000000000000000.log").write_bytes(builder.close())
        with contextlib.suppress(KafkaError):
            kraft.read(Path(folder))


def state_files(r: random.Random) -> None:
    """Read checkpoints, leader epochs, topic ids, producer snapshots and transaction indexes."""
    texts = (b"0\n2\nt 0 17\nt 1 5\n", b"0\n2\n0 0\n5 100\n", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "00000000000000000010.snapshot"
        good = r.choice((*texts, r.randbytes(r.randrange(200)), b"\x00\x01" + r.randbytes(4) + bytes(60)))
        path.write_bytes(damaged(good, r))
        for read in (
            lambda: checkpoints.read_offsets(path),
            LeaderEpochs(path).load,
            lambda: read_topic_id_in(path),
            lambda: ProducerStates(path.parent).load_snapshot(path),
            lambda: TransactionIndex(path).entries,
            lambda: TransactionIndex(path).sanity_check(0, 100),
        ):
            with contextlib.suppress(KafkaError):
                read()


def read_topic_id_in(path: Path) -> None:
    """Read the topic id from the file of a log's directory."""
    renamed = path.with_name("partition.metadata")
    renamed.write_bytes(path.read_bytes())
    read_topic_id(path.parent)

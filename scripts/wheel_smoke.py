"""Use an installed wheel: the compiled hot path, a broker, all clients, the command. Run by wheels.sh."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

import ottla
from ottla import Broker, KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, aio
from ottla.records import COMPILED

THREADS = 8
PER_THREAD = 2_500
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def send_from_threads(servers: str, codec: str) -> list[tuple[bytes, int, int]]:
    """Send records of `THREADS` threads by one producer. Return the value, partition and offset of each record."""
    with KafkaProducer(bootstrap_servers=servers, compression_type=codec, batch_size=4096) as producer:

        def send(thread: int) -> list[tuple[bytes, int, int]]:
            values = [b"%s %d %d" % (codec.encode(), thread, n) for n in range(PER_THREAD // len(CODECS))]
            sent = [(value, producer.send("smoke", value, value, headers=[("n", value)])) for value in values[::5]]
            sent += [(value, producer.send("smoke", value, value)) for n, value in enumerate(values) if n % 5]
            return [(value, (at := future.get(30)).partition, at.offset) for value, future in sent]

        with ThreadPoolExecutor(THREADS) as threads:
            return [place for part in threads.map(send, range(THREADS)) for place in part]


def read_all(servers: str, count: int) -> list[tuple[bytes, int, int]]:
    """Return the value, partition and offset of each record that the synchronous consumer reads."""
    places: list[tuple[bytes, int, int]] = []
    with KafkaConsumer("smoke", bootstrap_servers=servers, group_id="smoke", auto_offset_reset="earliest") as consumer:
        while len(places) < count:
            for partition, records in consumer.poll(timeout_ms=1000).items():
                assert all(not record.headers or record.headers == [("n", record.value)] for record in records)
                places += [(record.value, partition.partition, record.offset) for record in records]
    return places


async def read_all_asyncio(servers: str, count: int) -> list[tuple[bytes, int, int]]:
    """Send a record by the asyncio producer. Return what the asyncio consumer reads."""
    async with aio.KafkaProducer(bootstrap_servers=servers) as producer:
        await (await producer.send("smoke", b"asyncio"))
    async with aio.KafkaConsumer("smoke", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        records = [await anext(consumer) for _ in range(count)]
    return [(record.value, record.partition, record.offset) for record in records if record.value != b"asyncio"]


def main() -> None:
    """Send and read records by each client, and print the result in a line."""
    assert COMPILED, "the wheel has no compiled modules"
    assert shutil.which("cc") is None, "a compiler is on the PATH"
    assert "site-packages" in str(ottla.__file__)
    with Broker() as broker:
        servers = broker.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("smoke", 3, 1)])
            sent = sorted(place for codec in CODECS for place in send_from_threads(servers, codec))
            assert len(sent) == len({value for value, _, _ in sent}) == THREADS * PER_THREAD
            assert sorted(read_all(servers, len(sent))) == sent
            assert sorted(asyncio.run(read_all_asyncio(servers, len(sent) + 1))) == sent
            assert len(admin.describe_topics(["smoke"])["smoke"].partitions) == 3
        command = ["ottla", "get-offsets", "--bootstrap-server", servers, "--topic", "smoke"]
        offsets = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert sum(int(line.rpartition(":")[2]) for line in offsets.splitlines()) == len(sent) + 1, offsets
    lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert not (lock and sysconfig.get_config_var("Py_GIL_DISABLED")), "a module has turned the interpreter's lock on"
    print(
        f"Python {sys.version.split()[0]}, GIL {lock}: {len(sent)} records, sent by {THREADS} threads and five codecs,"
        " were read once by each consumer"
    )


if __name__ == "__main__":
    main()

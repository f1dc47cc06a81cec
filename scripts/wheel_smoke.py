"""Use an installed wheel: the compiled hot path, a broker, a producer, a consumer, the command. Run by wheels.sh."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys

import ottla
from ottla import Broker, KafkaConsumer, KafkaProducer, aio
from ottla.records import COMPILED

RECORDS = 10_000


async def read_all(servers: str) -> list[bytes]:
    """Return what the asyncio consumer reads."""
    async with aio.KafkaConsumer("smoke", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        return [(await anext(consumer)).value for _ in range(RECORDS)]


def main() -> None:
    """Send and read records with each codec's client, and print what was seen in a line."""
    assert COMPILED, "the wheel has no compiled modules"
    assert shutil.which("cc") is None, "a compiler is on the PATH"
    assert "site-packages" in str(ottla.__file__)
    values = [b"%d" % n for n in range(RECORDS)]
    with Broker() as broker:
        servers = broker.bootstrap_servers
        with KafkaProducer(bootstrap_servers=servers, compression_type="zstd") as producer:
            for value in values:
                producer.send("smoke", value)
        with KafkaConsumer("smoke", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            assert [next(consumer).value for _ in values] == values
        assert asyncio.run(read_all(servers)) == values
        command = ["ottla", "get-offsets", "--bootstrap-server", servers, "--topic", "smoke"]
        offsets = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert offsets == f"smoke:0:{RECORDS}\n", offsets
    lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}, GIL {lock}: {RECORDS} records sent and read by each client")


if __name__ == "__main__":
    main()

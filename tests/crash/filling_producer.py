"""A program that fills a producer's buffer while the broker is stopped, and prints the memory usage as JSON.

Sixteen threads send until each gets BufferExhaustedError. The broker returns the metadata and is then stopped.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from ottla import KafkaProducer
from ottla.errors import BufferExhaustedError

THREADS = 16
VALUE = b"." * 100
BUFFER_MEMORY = 64 << 20


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(bootstrap: str, topic: str, broker: int) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, buffer_memory=BUFFER_MEMORY, max_block_ms=500)
    producer.send(topic, VALUE, b"key").get(30)
    before = resident_bytes()
    os.kill(broker, signal.SIGSTOP)
    sent = [0] * THREADS

    def send(thread: int) -> None:
        while True:
            try:
                producer.send(topic, VALUE, b"%d" % (sent[thread] % 64))
            except BufferExhaustedError:
                return
            sent[thread] += 1

    threads = [threading.Thread(target=send, args=(t,)) for t in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = resident_bytes() - before
    os.kill(broker, signal.SIGCONT)
    producer.flush(60)
    pool = producer._core.accumulator.pool
    free = pool.available == pool.total
    producer.close()
    print(json.dumps({"records": sum(sent), "bytes": taken, "all_free": free, "buffer_memory": BUFFER_MEMORY}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

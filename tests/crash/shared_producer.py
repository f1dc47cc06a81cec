"""A program whose sixteen threads share one producer; `test_shared_producer` runs it, and kills the broker meanwhile.

Record i has the key i modulo `KEYS`, and its value starts with i in 8 bytes. The program prints the results of its
futures as JSON, and writes the numbers of failed records to a file.
"""

from __future__ import annotations

import json
import resource
import struct
import sys
import threading
from functools import partial
from pathlib import Path

from ottla import KafkaProducer
from ottla.records.appender import RecordFuture

THREADS = 16
KEYS = 64
VALUE_BYTES = 100
CLOSE_SECONDS = 120


def main(bootstrap: str, topic: str, records: int, failed_file: Path) -> None:
    completed = bytearray(records)
    failed: list[int] = []
    errors: set[str] = set()

    def on_completion(i: int, future: RecordFuture) -> None:
        """Record a result. Called on the I/O thread only, so without a lock."""
        completed[i] += 1
        error = future.exception()
        if error is not None:
            failed.append(i)
            errors.add(repr(error))

    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=1, reconnect_backoff_max_ms=200)

    def send(thread: int) -> None:
        padding = b"." * (VALUE_BYTES - 8)
        for i in range(thread, records, THREADS):
            value = struct.pack(">q", i) + padding
            producer.send(topic, value, b"%d" % (i % KEYS)).add_done_callback(partial(on_completion, i))

    threads = [threading.Thread(target=send, args=(t,)) for t in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.close(CLOSE_SECONDS)
    pool = producer._core.accumulator.pool
    failed_file.write_text("".join(f"{i}\n" for i in failed))
    reported = {
        "once": completed.count(1),
        "failed": len(failed),
        "errors": sorted(errors)[:5],
        "buffer_bytes_in_use": pool.total - pool.available,
        "threads": threading.active_count(),
        "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(reported))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))

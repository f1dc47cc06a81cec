"""The time of each page of the console on a large cluster.

    python -m benchmarks console [--topics 10000] [--brokers 3] [--requests 50] [--limit-ms 200] [--tail-rate 50000]

Starts a node of brokers, creates topics with a replica on each broker, and runs `ottla console`.
The pages are requested one after the other while the console refreshes its lists in the
background; one that fails counts as infinitely slow. Prints the median, the 95th percentile and the maximum of each
page, and ends with 1 if one of the 95th percentiles is above the limit.

Then a live tail is read for --tail-seconds while a producer sends --tail-rate records per second. Prints the records
that were produced, counted by the tail, and skipped, the rows that it sent, and the memory of the console before and
after.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks.servers import ENVIRONMENT, wait_for_answer
from ottla import KafkaAdminClient, KafkaProducer, NewTopic
from ottla.net.ports import free_port

AT_ONCE = 200
"""Topics of one request."""
TIMEOUT_MS = 120_000
READY_SECONDS = 120.0
TAILED = "topic-00003"
PAGES = (
    "/",
    "/brokers",
    "/brokers/0",
    "/topics",
    "/topics?page=100",
    "/topics?search=999",
    "/topics?order=rate",
    "/topics/topic-00007",
    "/topics/topic-00007/messages",
    "/groups",
    "/transactions",
    "/acls",
    "/users",
    "/quotas",
    "/log-dirs",
    "/spark",
)


@contextmanager
def process(arguments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run an `ottla` command until the block ends."""
    command = [sys.executable, "-m", "ottla", *arguments]
    child = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(60)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def create(address: str, topics: int, brokers: int) -> None:
    """Create the topics, and fill one of them."""
    with KafkaAdminClient(bootstrap_servers=address, request_timeout_ms=TIMEOUT_MS) as admin:
        while len(admin.describe_cluster().nodes) < brokers:
            time.sleep(0.1)
        for first in range(0, topics, AT_ONCE):
            names = (f"topic-{number:05}" for number in range(first, min(first + AT_ONCE, topics)))
            admin.create_topics([NewTopic(name, 1, brokers) for name in names], TIMEOUT_MS)
    with KafkaProducer(bootstrap_servers=address) as producer:
        for number in range(10_000):
            producer.send("topic-00007", b'{"number": %d, "page": "/index.html"}' % number)


def get(port: int, path: str) -> tuple[int, float]:
    """Return the status of a page, and the seconds that it took."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    began = time.perf_counter()
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    seconds = time.perf_counter() - began
    connection.close()
    return response.status, seconds


def wait_for_console(port: int) -> None:
    """Wait until the overview has its lists."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        try:
            if get(port, "/")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.5)
    raise TimeoutError("the console has no lists")


def measure(port: int, requests: int) -> dict[str, list[float]]:
    """Return the milliseconds of each page's requests. All pages take turns."""
    times: dict[str, list[float]] = {page: [] for page in PAGES}
    for _ in range(requests):
        for page, taken in times.items():
            status, seconds = get(port, page)
            taken.append(1000 * seconds if status == 200 else math.inf)
    return times


def produce(address: str, rate: int, seconds: float) -> int:
    """Send records of 100 B to TAILED at a fixed rate. Return how many."""
    values = [bytes(100)] * max(1, rate // 100)
    count, began = 0, time.monotonic()
    with KafkaProducer(bootstrap_servers=address) as producer:
        while (elapsed := time.monotonic() - began) < seconds:
            if count <= elapsed * rate:
                producer.send_batch(TAILED, values)
                count += len(values)
            else:
                time.sleep(0.002)
    return count


def tail(address: str, port: int, pid: int, rate: int, seconds: float) -> str:
    """Read a live tail while records arrive, and return a line about it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", f"/topics/{TAILED}/tail/events")
    response = connection.getresponse()
    before, rows, last = resident_mb(pid), 0, {}
    with ThreadPoolExecutor(1) as executor:
        producing = executor.submit(produce, address, rate, seconds)
        while not producing.done():
            line = response.readline()
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                rows += event["rows"].count("<tr")
                last = {name: value for name, value in event.items() if name != "rows"}
    after = resident_mb(pid)
    connection.close()
    counters = ", ".join(f"{name}={value}" for name, value in last.items())
    return (
        f"live tail: {producing.result():,} records produced in {seconds:.0f} s; {rows} rows shown, {counters}; "
        f"console {before:.0f} MB before, {after:.0f} MB after"
    )


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each page."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks console", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--requests", type=int, default=50, help="requests of each page")
    parser.add_argument("--limit-ms", type=float, default=200.0, help="allowed 95th percentile")
    parser.add_argument("--tail-rate", type=int, default=50_000, help="records per second for the live tail")
    parser.add_argument("--tail-seconds", type=float, default=20.0)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bench-console-") as directory:
        port, console = free_port(in_a_row=args.brokers), free_port()
        address = f"127.0.0.1:{port}"
        overrides = (f"--override=log.dirs={Path(directory, 'data')}", f"--override=listeners=PLAINTEXT://{address}")
        with process(["broker", "--brokers", str(args.brokers), *overrides]):
            wait_for_answer(port)
            began = time.perf_counter()
            create(address, args.topics, args.brokers)
            seconds = time.perf_counter() - began
            print(f"{args.topics:,} topics on {args.brokers} brokers, made in {seconds:.0f} s", flush=True)
            with process(["console", "--bootstrap-server", address, "--listen", f"127.0.0.1:{console}"]) as child:
                wait_for_console(console)
                times = measure(console, args.requests)
                tailed = tail(address, console, child.pid, args.tail_rate, args.tail_seconds)
    print(f"{'page':<32} {'median':>9} {'p95':>9} {'max':>9}")
    slow = 0
    for page, taken in times.items():
        p95 = sorted(taken)[math.ceil(0.95 * len(taken)) - 1]
        slow += p95 > args.limit_ms
        print(f"{page:<32} {statistics.median(taken):>6.0f} ms {p95:>6.0f} ms {max(taken):>6.0f} ms")
    print(tailed)
    return 1 if slow else 0

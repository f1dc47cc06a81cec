"""The time of each page of the console on a large cluster.

    python -m benchmarks console [--topics 10000] [--brokers 3] [--requests 50] [--limit-ms 200]

Starts a node of brokers, creates topics with a replica on each broker, and serves the console as `ottla console` does,
in a process of its own. The pages are requested one after the other while the console refreshes its lists in the
background; one that fails counts as infinitely slow. Prints the median, the 95th percentile and the maximum of each
page, and ends with 1 if one of the 95th percentiles is above the limit.
"""

from __future__ import annotations

import argparse
import http.client
import math
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.servers import ENVIRONMENT, wait_for_answer
from ottla import KafkaAdminClient, KafkaProducer, NewTopic
from ottla.net.ports import free_port

AT_ONCE = 200
"""Topics of one request."""
TIMEOUT_MS = 120_000
READY_SECONDS = 120.0
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
def process(arguments: Sequence[str]) -> Iterator[None]:
    """Run an `ottla` command until the block ends."""
    command = [sys.executable, "-m", "ottla", *arguments]
    child = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
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
    """Return the milliseconds of each page's requests; all pages have their turn before the next round."""
    times: dict[str, list[float]] = {page: [] for page in PAGES}
    for _ in range(requests):
        for page, taken in times.items():
            status, seconds = get(port, page)
            taken.append(1000 * seconds if status == 200 else math.inf)
    return times


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each page."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks console", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--requests", type=int, default=50, help="requests of each page")
    parser.add_argument("--limit-ms", type=float, default=200.0, help="allowed 95th percentile")
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
            with process(["console", "--bootstrap-server", address, "--listen", f"127.0.0.1:{console}"]):
                wait_for_console(console)
                times = measure(console, args.requests)
    print(f"{'page':<32} {'median':>9} {'p95':>9} {'max':>9}")
    slow = 0
    for page, taken in times.items():
        p95 = sorted(taken)[math.ceil(0.95 * len(taken)) - 1]
        slow += p95 > args.limit_ms
        print(f"{page:<32} {statistics.median(taken):>6.0f} ms {p95:>6.0f} ms {max(taken):>6.0f} ms")
    return 1 if slow else 0

"""Cost of system calls and CRC on this machine: the minimum of a broker's CPU per GB.

    python -m benchmarks floors [--megabytes 400] [--repeats 5] [--save]

Each floor handles batches of 64 KiB, in one thread:

    recv      receive from a socket on loopback into a buffer
    CRC       CRC-32C of a buffer
    append    write to a file, into the page cache
    sendfile  send a file from the page cache to a socket on loopback
    mapped    send a file as pages that are mapped for it
"""

from __future__ import annotations

import argparse
import mmap
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import crc32c

from benchmarks import results
from benchmarks.results import Figure

BATCH_BYTES = 65_536
BUFFER = 4 * 1024 * 1024


@contextmanager
def loopback() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        yield near, far


def recv(total: int) -> float:
    """Return the thread's CPU seconds to receive so many bytes."""
    with loopback() as (near, far):
        sender = threading.Thread(target=_send, args=(far, total))
        sender.start()
        view, left, began = memoryview(bytearray(BATCH_BYTES)), total, time.thread_time()
        while left:
            left -= near.recv_into(view, min(left, BATCH_BYTES))
        seconds = time.thread_time() - began
        sender.join()
    return seconds


def _send(sock: socket.socket, total: int) -> None:
    data = bytes(BATCH_BYTES)
    for _ in range(total // BATCH_BYTES):
        sock.sendall(data)


def crc(total: int) -> float:
    """Return the CPU seconds of the CRC of so many bytes."""
    data = os.urandom(BUFFER)
    view, began = memoryview(data), time.thread_time()
    for i in range(total // BATCH_BYTES):
        start = i * BATCH_BYTES % BUFFER
        crc32c.crc32c(view[start : start + BATCH_BYTES])
    return time.thread_time() - began


def append(total: int) -> float:
    """Return the CPU seconds to write so many bytes to a file."""
    data = os.urandom(BATCH_BYTES)
    with tempfile.TemporaryFile() as file:
        began = time.thread_time()
        for i in range(total // BATCH_BYTES):
            os.pwrite(file.fileno(), data, i * BATCH_BYTES)
        return time.thread_time() - began


def sendfile(total: int) -> float:
    """Return the thread's CPU seconds to send so many bytes of a file in the page cache."""
    return _sent(total, lambda near, fd, position, nbytes: os.sendfile(near.fileno(), fd, position, nbytes))


def mapped(total: int) -> float:
    """Return the thread's CPU seconds for the same without sendfile. Each page is mapped when it is sent."""

    def send(near: socket.socket, fd: int, position: int, nbytes: int) -> int:
        start = position // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        pages = mmap.mmap(fd, position + nbytes - start, access=mmap.ACCESS_READ, offset=start)
        return near.send(memoryview(pages)[position - start :])

    return _sent(total, send)


def _sent(total: int, send: Callable[[socket.socket, int, int, int], int]) -> float:
    with tempfile.TemporaryFile() as file, loopback() as (near, far):
        file.write(bytes(BUFFER * 4))
        file.flush()
        receiver = threading.Thread(target=_receive, args=(far, total))
        receiver.start()
        left, began = total, time.thread_time()
        while left:
            left -= send(near, file.fileno(), (total - left) % BUFFER, min(left, BUFFER))
        seconds = time.thread_time() - began
        receiver.join()
    return seconds


def _receive(sock: socket.socket, total: int) -> None:
    view = memoryview(bytearray(BUFFER))
    while total:
        total -= sock.recv_into(view, min(total, BUFFER))


FLOORS: dict[str, Callable[[int], float]] = {
    "recv": recv,
    "CRC": crc,
    "append": append,
    "sendfile": sendfile,
    "mapped": mapped,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all floors in turns, and print the medians."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks floors", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results and a row of the history")
    args = parser.parse_args(argv)
    total = args.megabytes * 1_000_000 // BATCH_BYTES * BATCH_BYTES
    values: dict[str, list[float]] = {name: [] for name in FLOORS}
    for _ in range(args.repeats):
        for name, floor in FLOORS.items():
            values[name].append(floor(total) / total * 1e9)
    figures = [Figure(name, "s/GB", False, {"floor": seconds}) for name, seconds in values.items()]
    for figure in figures:
        spread = figure.values["floor"]
        print(f"{figure.name:<10}{figure.median('floor'):>6.3f} s/GB  [{min(spread):.3f} … {max(spread):.3f}]")
    if args.save:
        print(f"written: {results.save('floors', {'floors': figures}, [])}")
    return 0

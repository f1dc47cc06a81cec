"""Values of the metrics of the broker's process, such as its event loop, CPU time, memory and files."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from pathlib import Path

from ottla.broker.monitoring.metric import Samples
from ottla.broker.monitoring.scrape import Scrape
from ottla.version import __version__

STATUS = Path("/proc/self/statm")
DESCRIPTORS = Path("/proc/self/fd")


def state(scrape: Scrape) -> int:
    return scrape.broker.state()


def version(scrape: Scrape) -> Samples:
    yield (__version__, scrape.context.image.cluster_id, str(scrape.context.broker_id)), 1


def idle_fraction(scrape: Scrape) -> float | None:
    loop_time = scrape.broker.loop_time
    return None if loop_time is None else loop_time.idle_fraction()


def busy_seconds(scrape: Scrape) -> float | None:
    loop_time = scrape.broker.loop_time
    return None if loop_time is None else loop_time.busy_seconds


def stalls(scrape: Scrape) -> int | None:
    monitor = scrape.broker.loop_monitor
    return None if monitor is None else monitor.stalls


def stalled_seconds(scrape: Scrape) -> float | None:
    monitor = scrape.broker.loop_monitor
    return None if monitor is None else monitor.stalled_seconds


def longest_stall(scrape: Scrape) -> float | None:
    monitor = scrape.broker.loop_monitor
    return None if monitor is None else monitor.longest_stall_seconds


def cpu_seconds(_: Scrape) -> float:
    return time.process_time()


def resident_bytes(_: Scrape) -> int:
    if STATUS.exists():
        return int(STATUS.read_text().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(
        resource.RUSAGE_SELF
    ).ru_maxrss  # the peak, as macOS has no cheap way to read the current value
    return peak if sys.platform == "darwin" else peak * 1024


def open_files(_: Scrape) -> int | None:
    return len(os.listdir(DESCRIPTORS)) if DESCRIPTORS.exists() else None


def max_files(_: Scrape) -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def threads(_: Scrape) -> int:
    return threading.active_count()

"""Values of the metrics of logs, log directories, flushes and the log cleaner."""

from __future__ import annotations

from ottla.broker.monitoring.metric import Samples
from ottla.broker.monitoring.scrape import Scrape
from ottla.latency import LatencySnapshot


def size(scrape: Scrape) -> Samples:
    for partition in scrape.partitions:
        tp = partition.topic_partition
        yield (tp.topic, str(tp.partition), str(partition.log.dir.parent)), partition.log.size


def start_offset(scrape: Scrape) -> Samples:
    for partition in scrape.partitions:
        tp = partition.topic_partition
        yield (tp.topic, str(tp.partition)), partition.log.log_start_offset


def end_offset(scrape: Scrape) -> Samples:
    for partition in scrape.partitions:
        tp = partition.topic_partition
        yield (tp.topic, str(tp.partition)), partition.log.log_end_offset


def segments(scrape: Scrape) -> Samples:
    for partition in scrape.partitions:
        tp = partition.topic_partition
        yield (tp.topic, str(tp.partition)), len(partition.log.segments)


def flush_times(scrape: Scrape) -> Samples:
    merged = LatencySnapshot()
    for log_dir in scrape.context.partitions.log_dirs:
        merged = merged.merged(log_dir.flusher.times.snapshot(scrape.now))
    yield (), merged


def directory_flush_times(scrape: Scrape) -> Samples:
    for log_dir in scrape.context.partitions.log_dirs:
        yield (str(log_dir.path),), log_dir.flusher.times.snapshot(scrape.now)


def slow_flushes(scrape: Scrape) -> Samples:
    for log_dir in scrape.context.partitions.log_dirs:
        yield (str(log_dir.path),), log_dir.flusher.slow_flushes


def longest_running_flush(scrape: Scrape) -> Samples:
    for log_dir in scrape.context.partitions.log_dirs:
        yield (str(log_dir.path),), log_dir.flusher.longest_running_seconds()


def offline_directories(scrape: Scrape) -> int:
    return len(scrape.context.partitions.offline_dirs)


def directory_offline(scrape: Scrape) -> Samples:
    for log_dir in scrape.context.partitions.log_dirs:
        yield (str(log_dir.path),), int(bool(log_dir.offline))
    for path in scrape.context.partitions.unopened_dirs:
        yield (path,), 1


def queued_bytes(scrape: Scrape) -> Samples:
    for log_dir in scrape.context.partitions.log_dirs:
        if log_dir.writer is not None:
            yield (str(log_dir.path),), log_dir.writer.queued_bytes


def slow_writes(scrape: Scrape) -> Samples:
    for log_dir in scrape.context.partitions.log_dirs:
        if log_dir.writer is not None:
            yield (str(log_dir.path),), log_dir.writer.slow_writes


def uncleanable(scrape: Scrape) -> Samples:
    for log_dir in scrape.context.partitions.log_dirs:
        yield (str(log_dir.path),), len(log_dir.uncleanable)


def cleaner_passes(scrape: Scrape) -> int:
    return sum(log_dir.cleaner_passes for log_dir in scrape.context.partitions.log_dirs)


def disk_total(scrape: Scrape) -> Samples:
    for path, space in scrape.disks.items():
        yield (path,), space.total


def disk_free(scrape: Scrape) -> Samples:
    for path, space in scrape.disks.items():
        yield (path,), space.free

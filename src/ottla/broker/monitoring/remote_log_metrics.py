"""The metrics of tiered storage, one row each, as in `metric_table`."""

from __future__ import annotations

from typing import Final

from ottla.broker.monitoring.metric import BrokerMetric, Kind
from ottla.broker.monitoring.sources import remote_log

_TOPICS: Final = "kafka.server:type=BrokerTopicMetrics,name="
TOPIC: Final = ("topic",)


def _counter(name: str, text: str, counter: str) -> BrokerMetric:
    return BrokerMetric(f"{_TOPICS}{name}", Kind.COUNTER, TOPIC, text, remote_log.counted(counter))


REMOTE_LOG_METRICS: Final[tuple[BrokerMetric, ...]] = (
    _counter("RemoteCopyBytesPerSec", "Bytes of segments copied to remote storage.", "remote_copy_bytes"),
    _counter("RemoteCopyRequestsPerSec", "Attempts to copy a segment to remote storage.", "remote_copy_requests"),
    _counter(
        "RemoteCopyErrorsPerSec",
        "Attempts to copy a segment that have failed; they are repeated.",
        "remote_copy_errors",
    ),
    _counter(
        "RemoteFetchBytesPerSec", "Bytes of records that consumers got from remote storage.", "remote_fetch_bytes"
    ),
    _counter(
        "RemoteFetchRequestsPerSec",
        "Attempts to read records of a partition from remote storage.",
        "remote_fetch_requests",
    ),
    _counter(
        "RemoteFetchErrorsPerSec",
        "Attempts to read records from remote storage that have failed, without timeouts.",
        "remote_fetch_errors",
    ),
    _counter("RemoteDeleteRequestsPerSec", "Attempts to delete a segment in remote storage.", "remote_delete_requests"),
    _counter(
        "RemoteDeleteErrorsPerSec",
        "Attempts to delete a segment in remote storage that have failed.",
        "remote_delete_errors",
    ),
    _counter(
        "BuildRemoteLogAuxStateRequestsPerSec",
        "Attempts of followers to start where the leader's local log starts, as older records are in remote storage.",
        "aux_state_requests",
    ),
    _counter(
        "BuildRemoteLogAuxStateErrorsPerSec",
        "Failed attempts of followers to start where the leader's local log starts.",
        "aux_state_errors",
    ),
    BrokerMetric(
        f"{_TOPICS}RemoteCopyLagBytes",
        Kind.GAUGE,
        TOPIC,
        "Bytes of closed segments that are not in remote storage yet. The disk fills up if it grows.",
        remote_log.copy_lag_bytes,
    ),
    BrokerMetric(
        f"{_TOPICS}RemoteCopyLagSegments",
        Kind.GAUGE,
        TOPIC,
        "Number of closed segments that are not in remote storage yet.",
        remote_log.copy_lag_segments,
    ),
    BrokerMetric(
        f"{_TOPICS}RemoteDeleteLagBytes",
        Kind.GAUGE,
        TOPIC,
        "Bytes of segments that have to be deleted in remote storage. They are paid for until they are deleted.",
        remote_log.delete_lag_bytes,
    ),
    BrokerMetric(
        f"{_TOPICS}RemoteDeleteLagSegments",
        Kind.GAUGE,
        TOPIC,
        "Number of segments that have to be deleted in remote storage.",
        remote_log.delete_lag_segments,
    ),
    BrokerMetric(
        f"{_TOPICS}RemoteLogMetadataCount",
        Kind.GAUGE,
        TOPIC,
        "Number of segments in remote storage, with those that are being copied or deleted.",
        remote_log.metadata_count,
    ),
    BrokerMetric(
        f"{_TOPICS}RemoteLogSizeBytes",
        Kind.GAUGE,
        TOPIC,
        "Bytes of segments in remote storage.",
        remote_log.size_bytes,
    ),
    BrokerMetric(
        "kafka.log.remote:type=RemoteLogManager,name=RemoteLogManagerTasksAvgIdlePercent",
        Kind.GAUGE,
        (),
        "Share of the tiered partitions led here that are neither copied nor cleaned at the moment, 0 to 1.",
        remote_log.tasks_idle_fraction,
    ),
    BrokerMetric(
        "org.apache.kafka.storage.internals.log:type=RemoteStorageThreadPool,name=RemoteLogReaderTaskQueueSize",
        Kind.GAUGE,
        (),
        "Number of reads from remote storage that are in progress or wait for a thread.",
        remote_log.task_queue_size,
    ),
)

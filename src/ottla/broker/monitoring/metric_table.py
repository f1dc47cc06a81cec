"""The metrics of the broker, one row each: Kafka's name, type, labels, help text, and the function that returns the
value.

The page docs/metrics.md, the output for Prometheus and the metrics of `metric.reporters` follow from this table. Names
of the domain `ottla` are our own; `kafka:type=consumergroup` and `process_*` are the names of the exporters that
dashboards for Kafka and for processes expect.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.monitoring.coordinator_metrics import COORDINATOR_METRICS
from ottla.broker.monitoring.metric import BrokerMetric, Kind
from ottla.broker.monitoring.remote_log_metrics import REMOTE_LOG_METRICS
from ottla.broker.monitoring.sources import controller, logs, network, process, replicas, requests

COUNTER, GAUGE, SUMMARY, SIZES, COUNT = Kind.COUNTER, Kind.GAUGE, Kind.SUMMARY, Kind.SIZES, Kind.COUNT

# The names of the labels, as in Kafka's MBeans.
TOPIC = ("topic",)
PARTITION = ("topic", "partition")
REQUEST = ("request",)
LISTENER = ("listener", "networkProcessor")
OPERATION = ("delayedOperation",)
DIRECTORY = ("logDirectory",)
CLIENT = ("clientId",)
STATE = ("state",)
QUOTA = ("resource", "user", "clientId")
NONE: tuple[str, ...] = ()

_TOPICS = "kafka.server:type=BrokerTopicMetrics,name="
_REPLICAS = "kafka.server:type=ReplicaManager,name="
_FETCHERS = "kafka.server:type=ReplicaFetcherManager,name="
_REQUESTS = "kafka.network:type=RequestMetrics,name="
_SOCKETS = "kafka.server:type=socket-server-metrics#"
_SERVER = "kafka.network:type=SocketServer,name="
_CONTROLLER = "kafka.controller:type=KafkaController,name="
_ELECTIONS = "kafka.controller:type=ControllerStats,name="
_PARTITION = "kafka.cluster:type=Partition,name="
_LOG = "kafka.log:type=Log,name="
_LOGS = "kafka.log:type=LogManager,name="
_PURGATORY = "kafka.server:type=DelayedOperationPurgatory,name="
_SESSIONS = "kafka.server:type=FetchSessionCache,name="
_ZOOKEEPER = "kafka.server:type=SessionExpireListener,name="

per_topic, of_all_topics, counted = replicas.per_topic, replicas.of_all_topics, network.counted

METRICS: Final[tuple[BrokerMetric, ...]] = (
    # The broker
    BrokerMetric(
        "kafka.server:type=KafkaServer,name=BrokerState",
        GAUGE,
        NONE,
        "State of the broker: 0 not running, 1 starting, 3 running, 6 stopping.",
        process.state,
    ),
    BrokerMetric(
        "kafka.server:type=app-info",
        GAUGE,
        ("version", "cluster_id", "broker_id"),
        "1, with Ottla's version, the cluster's id and the broker's id as labels.",
        process.version,
    ),
    BrokerMetric(
        "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
        GAUGE,
        NONE,
        "Share of time in which the event loop waited, 0 to 1, over 15 s or more. Below 0.3 the broker is busy.",
        process.idle_fraction,
    ),
    BrokerMetric(
        f"{_SERVER}NetworkProcessorAvgIdlePercent",
        GAUGE,
        NONE,
        "The same value as RequestHandlerAvgIdlePercent: one event loop handles requests and the network.",
        process.idle_fraction,
    ),
    BrokerMetric(
        "ottla:type=event-loop#busy-seconds-total",
        COUNTER,
        NONE,
        "Seconds that the event loop did not wait for sockets.",
        process.busy_seconds,
    ),
    BrokerMetric(
        "ottla:type=event-loop#stalls-total",
        COUNTER,
        NONE,
        "Times that the event loop was held up for longer than ottla.event.loop.stall.ms; every client waited.",
        process.stalls,
    ),
    BrokerMetric(
        "ottla:type=event-loop#stalled-seconds-total",
        COUNTER,
        NONE,
        "Total seconds of the stalls that are longer than ottla.event.loop.stall.ms.",
        process.stalled_seconds,
    ),
    BrokerMetric(
        "ottla:type=event-loop#longest-stall-seconds",
        GAUGE,
        NONE,
        "Duration in seconds of the longest stall of the event loop since the start.",
        process.longest_stall,
    ),
    BrokerMetric(
        "process_cpu_seconds_total",
        COUNTER,
        NONE,
        "User and system CPU time of the broker's process in seconds.",
        process.cpu_seconds,
    ),
    BrokerMetric(
        "process_resident_memory_bytes",
        GAUGE,
        NONE,
        "Resident memory of the broker's process in bytes; on macOS, the highest since the start.",
        process.resident_bytes,
    ),
    BrokerMetric(
        "process_open_fds",
        GAUGE,
        NONE,
        "Open file descriptors, such as those of connections, segments and indexes.",
        process.open_files,
    ),
    BrokerMetric(
        "process_max_fds",
        GAUGE,
        NONE,
        "Limit of open file descriptors. Connections of clients do not use the last quarter; it is reserved for logs.",
        process.max_files,
    ),
    BrokerMetric("process_threads", GAUGE, NONE, "Threads of Python in the broker's process.", process.threads),
    # Topics: of all of them without the label, and of each
    BrokerMetric(
        f"{_TOPICS}MessagesInPerSec", COUNTER, TOPIC, "Records that were appended as leader.", per_topic("messages_in")
    ),
    BrokerMetric(
        f"{_TOPICS}BytesInPerSec", COUNTER, TOPIC, "Bytes that were appended as leader.", per_topic("bytes_in")
    ),
    BrokerMetric(
        f"{_TOPICS}BytesOutPerSec",
        COUNTER,
        TOPIC,
        "Bytes of records sent to consumers and members of share groups.",
        per_topic("bytes_out"),
    ),
    BrokerMetric(
        f"{_TOPICS}BytesRejectedPerSec",
        COUNTER,
        TOPIC,
        "Bytes of batches that were rejected because they are too large.",
        per_topic("bytes_rejected"),
    ),
    BrokerMetric(
        f"{_TOPICS}TotalProduceRequestsPerSec",
        COUNTER,
        TOPIC,
        "Appends to partitions, including failed ones; a request may have several.",
        per_topic("produce_requests"),
    ),
    BrokerMetric(
        f"{_TOPICS}FailedProduceRequestsPerSec",
        COUNTER,
        TOPIC,
        "Batches whose append has failed, unless the partition is unknown, led elsewhere or on a failed disk.",
        per_topic("failed_produce_requests"),
    ),
    BrokerMetric(
        f"{_TOPICS}TotalFetchRequestsPerSec",
        COUNTER,
        TOPIC,
        "Partitions that were read for fetches of consumers and followers.",
        per_topic("fetch_requests"),
    ),
    BrokerMetric(
        f"{_TOPICS}FailedFetchRequestsPerSec",
        COUNTER,
        TOPIC,
        "Partitions whose fetch has failed.",
        per_topic("failed_fetch_requests"),
    ),
    BrokerMetric(
        f"{_TOPICS}TotalShareFetchRequestsPerSec",
        COUNTER,
        TOPIC,
        "Partitions in share fetches.",
        per_topic("share_fetch_requests"),
    ),
    BrokerMetric(
        f"{_TOPICS}FailedShareFetchRequestsPerSec",
        COUNTER,
        TOPIC,
        "Partitions whose share fetch has failed.",
        per_topic("failed_share_fetch_requests"),
    ),
    BrokerMetric(
        f"{_TOPICS}TotalShareAcknowledgementRequestsPerSec",
        COUNTER,
        TOPIC,
        "Partitions in acknowledgements of members of share groups, including rejected ones.",
        per_topic("share_acknowledgements"),
    ),
    BrokerMetric(
        f"{_TOPICS}FailedShareAcknowledgementRequestsPerSec",
        COUNTER,
        TOPIC,
        "Partitions whose acknowledgements were rejected.",
        per_topic("failed_share_acknowledgements"),
    ),
    BrokerMetric(
        f"{_TOPICS}ProduceMessageConversionsPerSec",
        COUNTER,
        TOPIC,
        "Batches of old producers that were up-converted.",
        per_topic("produce_conversions"),
    ),
    BrokerMetric(
        f"{_TOPICS}FetchMessageConversionsPerSec",
        COUNTER,
        TOPIC,
        "Reads of old consumers that were down-converted.",
        per_topic("fetch_conversions"),
    ),
    BrokerMetric(
        f"{_TOPICS}NoKeyCompactedTopicRecordsPerSec",
        COUNTER,
        TOPIC,
        "Batches rejected for invalid records: mostly records without a key for a compacted topic.",
        per_topic("invalid_records"),
    ),
    BrokerMetric(
        f"{_TOPICS}InvalidMagicNumberRecordsPerSec",
        COUNTER,
        TOPIC,
        "Batches rejected because the topic's message format does not support them.",
        per_topic("invalid_magic"),
    ),
    BrokerMetric(
        f"{_TOPICS}InvalidMessageCrcRecordsPerSec",
        COUNTER,
        TOPIC,
        "Corrupt batches: the CRC or the structure is wrong.",
        per_topic("invalid_crc"),
    ),
    BrokerMetric(
        f"{_TOPICS}InvalidOffsetOrSequenceRecordsPerSec",
        COUNTER,
        TOPIC,
        "Batches of idempotent producers that were out of sequence.",
        per_topic("invalid_offset_or_sequence"),
    ),
    BrokerMetric(
        f"{_TOPICS}ReplicationBytesInPerSec",
        COUNTER,
        NONE,
        "Bytes of records that followers on this broker have received.",
        of_all_topics("replication_bytes_in"),
    ),
    BrokerMetric(
        f"{_TOPICS}ReplicationBytesOutPerSec",
        COUNTER,
        NONE,
        "Bytes of records sent to followers on other brokers.",
        of_all_topics("replication_bytes_out"),
    ),
    # Replicas
    BrokerMetric(f"{_REPLICAS}PartitionCount", GAUGE, NONE, "Replicas on this broker.", replicas.partition_count),
    BrokerMetric(f"{_REPLICAS}LeaderCount", GAUGE, NONE, "Partitions that this broker leads.", replicas.leader_count),
    BrokerMetric(
        f"{_REPLICAS}UnderReplicatedPartitions",
        GAUGE,
        NONE,
        "Partitions led here with fewer in-sync replicas than replicas. 0 in a healthy cluster.",
        replicas.under_replicated,
    ),
    BrokerMetric(
        f"{_REPLICAS}UnderMinIsrPartitionCount",
        GAUGE,
        NONE,
        "Partitions led here with fewer in-sync replicas than acks=all requires, so that such writes fail. Must be 0.",
        replicas.under_min_isr,
    ),
    BrokerMetric(
        f"{_REPLICAS}AtMinIsrPartitionCount",
        GAUGE,
        NONE,
        "Partitions led here with just the number of in-sync replicas that acks=all requires.",
        replicas.at_min_isr,
    ),
    BrokerMetric(
        f"{_REPLICAS}OfflineReplicaCount",
        GAUGE,
        NONE,
        "Replicas out of service: their disk has failed, or their log could not be created.",
        replicas.offline_replicas,
    ),
    BrokerMetric(
        f"{_REPLICAS}ReassigningPartitions",
        GAUGE,
        NONE,
        "Partitions led here that are being reassigned.",
        replicas.reassigning,
    ),
    BrokerMetric(
        f"{_REPLICAS}ProducerIdCount",
        GAUGE,
        NONE,
        "Producer ids with state in the logs of this broker, once per partition.",
        replicas.producer_ids,
    ),
    BrokerMetric(
        f"{_REPLICAS}IsrShrinksPerSec",
        COUNTER,
        NONE,
        "In-sync replica sets that have become smaller.",
        replicas.isr_shrinks,
    ),
    BrokerMetric(
        f"{_REPLICAS}IsrExpandsPerSec",
        COUNTER,
        NONE,
        "In-sync replica sets that have become larger.",
        replicas.isr_expansions,
    ),
    BrokerMetric(
        f"{_REPLICAS}FailedIsrUpdatesPerSec",
        COUNTER,
        NONE,
        "Updates of the ISR that the controller has rejected.",
        replicas.failed_isr_updates,
    ),
    BrokerMetric(
        f"{_FETCHERS}MaxLag",
        GAUGE,
        CLIENT,
        "Lag in records of the follower on this broker that is furthest behind its leader.",
        replicas.max_lag,
    ),
    BrokerMetric(
        f"{_FETCHERS}FailedPartitionsCount",
        GAUGE,
        CLIENT,
        "Followers on this broker whose last fetch has failed.",
        replicas.failing_followers,
    ),
    BrokerMetric(
        "kafka.server:type=FetcherLagMetrics,name=ConsumerLag",
        GAUGE,
        (*CLIENT, *PARTITION),
        "Records that a follower on this broker lacks.",
        replicas.follower_lag,
    ),
    BrokerMetric(
        f"{_PARTITION}UnderReplicated",
        GAUGE,
        PARTITION,
        "1 if the partition is led here and under-replicated, else 0.",
        replicas.partition_under_replicated,
    ),
    BrokerMetric(
        f"{_PARTITION}UnderMinIsr",
        GAUGE,
        PARTITION,
        "1 if the partition is led here and its ISR is smaller than acks=all requires, else 0.",
        replicas.partition_under_min_isr,
    ),
    BrokerMetric(
        f"{_PARTITION}AtMinIsr",
        GAUGE,
        PARTITION,
        "1 if the partition is led here and its ISR has just the size that acks=all requires, else 0.",
        replicas.partition_at_min_isr,
    ),
    BrokerMetric(
        f"{_PARTITION}ReplicasCount",
        GAUGE,
        PARTITION,
        "Replicas of the partition; 0 if it is not led here.",
        replicas.partition_replicas,
    ),
    BrokerMetric(
        f"{_PARTITION}InSyncReplicasCount",
        GAUGE,
        PARTITION,
        "In-sync replicas of the partition; 0 if it is not led here.",
        replicas.partition_in_sync,
    ),
    BrokerMetric(
        f"{_PARTITION}LastStableOffsetLag",
        GAUGE,
        PARTITION,
        "Offsets between last stable offset and high watermark, which read_committed consumers cannot read yet.",
        replicas.last_stable_offset_lag,
    ),
    # Requests
    BrokerMetric(
        f"{_REQUESTS}RequestsPerSec", COUNTER, ("request", "version"), "Requests by API and version.", requests.requests
    ),
    BrokerMetric(
        f"{_REQUESTS}ErrorsPerSec",
        COUNTER,
        ("request", "error"),
        "Error codes in responses; NONE for success.",
        requests.errors,
    ),
    BrokerMetric(f"{_REQUESTS}RequestBytes", SIZES, REQUEST, "Sizes of requests in bytes.", requests.request_bytes),
    BrokerMetric(
        f"{_REQUESTS}TotalTimeMs",
        SUMMARY,
        REQUEST,
        "Time from the start of the processing of a request to its response, in milliseconds.",
        requests.total_time,
    ),
    BrokerMetric(
        f"{_REQUESTS}RequestQueueTimeMs",
        SUMMARY,
        REQUEST,
        "Time that requests wait for others in the same iteration of the event loop; measured for one of eight.",
        requests.queue_time,
    ),
    BrokerMetric(
        f"{_REQUESTS}LocalTimeMs",
        SUMMARY,
        REQUEST,
        "Time in which this broker works for a request before it waits or responds.",
        requests.local_time,
    ),
    BrokerMetric(
        f"{_REQUESTS}RemoteTimeMs",
        SUMMARY,
        REQUEST,
        "Time that a request waits: for followers, records, other members, or workers.",
        requests.remote_time,
    ),
    BrokerMetric(
        f"{_REQUESTS}ThrottleTimeMs", SUMMARY, REQUEST, "Throttle times of quotas in responses.", requests.throttle_time
    ),
    BrokerMetric(
        f"{_REQUESTS}MessageConversionsTimeMs",
        SUMMARY,
        REQUEST,
        "Time for the conversion of message formats.",
        requests.conversion_time,
    ),
    BrokerMetric(
        f"{_REQUESTS}ResponseQueueTimeMs",
        SUMMARY,
        REQUEST,
        "Always 0: a response is sent in the step of the event loop that completes it.",
        requests.response_queue_time,
    ),
    BrokerMetric(
        f"{_REQUESTS}ResponseSendTimeMs",
        SUMMARY,
        REQUEST,
        "Time until the socket has accepted the response; 0 if at once. Long ones: the client or network is slow.",
        requests.send_time,
    ),
    BrokerMetric(
        f"{_REQUESTS}TemporaryMemoryBytes",
        SIZES,
        REQUEST,
        "Sizes of converted records: memory for message formats of old clients.",
        requests.temporary_bytes,
    ),
    BrokerMetric(f"{_PURGATORY}PurgatorySize", GAUGE, OPERATION, "Waiting requests by operation.", requests.waiting),
    BrokerMetric(
        f"{_PURGATORY}NumDelayedOperations",
        GAUGE,
        OPERATION,
        "The same value as PurgatorySize: each waiting request is one operation.",
        requests.waiting,
    ),
    BrokerMetric(
        "kafka.server:type=quota#byte-rate",
        GAUGE,
        QUOTA,
        "Bytes per second of users and clients with a quota.",
        requests.quota_byte_rates,
    ),
    BrokerMetric(
        "kafka.server:type=quota#request-time",
        GAUGE,
        QUOTA,
        "Percent of a core that users and clients with a request quota use.",
        requests.quota_request_percents,
    ),
    BrokerMetric(
        "kafka.server:type=quota#mutation-rate",
        GAUGE,
        QUOTA,
        "Partitions that users and clients with a controller mutation quota create and delete per second.",
        requests.quota_mutation_rates,
    ),
    BrokerMetric(
        "kafka.server:type=quota#throttle-time",
        GAUGE,
        QUOTA,
        "Average throttle time in milliseconds of the requests of users and clients above their quota.",
        requests.quota_throttle_times,
    ),
    BrokerMetric(
        "kafka.server:type=ShareSessionCache,name=ShareSessionsCount",
        GAUGE,
        NONE,
        "Open share sessions (KIP-932).",
        requests.share_sessions,
    ),
    BrokerMetric(
        "kafka.server:type=ShareSessionCache,name=SharePartitionsCount",
        GAUGE,
        NONE,
        "Partitions of all share sessions.",
        requests.share_session_partitions,
    ),
    BrokerMetric(
        "kafka.server:type=ShareSessionCache,name=ShareSessionEvictionsPerSec",
        COUNTER,
        NONE,
        "Share sessions of inactive members that were closed because the cache was full.",
        requests.share_session_evictions,
    ),
    BrokerMetric(
        "kafka.server:type=ShareGroupMetrics,name=RecordAcknowledgementsPerSec",
        COUNTER,
        ("ackType",),
        "Records that members of share groups have acknowledged.",
        requests.share_acknowledgements,
    ),
    BrokerMetric(
        f"{_SESSIONS}NumIncrementalFetchSessions",
        GAUGE,
        NONE,
        "Open fetch sessions (KIP-227).",
        requests.fetch_sessions,
    ),
    BrokerMetric(
        f"{_SESSIONS}NumIncrementalFetchPartitionsCached",
        GAUGE,
        NONE,
        "Partitions of all fetch sessions.",
        requests.fetch_session_partitions,
    ),
    # Connections
    BrokerMetric(f"{_SOCKETS}connection-count", GAUGE, LISTENER, "Open connections.", network.connections),
    BrokerMetric(
        f"{_SOCKETS}connection-creation-total",
        COUNTER,
        LISTENER,
        "Connections that were accepted.",
        counted("accepted"),
    ),
    BrokerMetric(
        f"{_SOCKETS}connection-close-total", COUNTER, LISTENER, "Connections that were closed.", counted("closed")
    ),
    BrokerMetric(
        f"{_SOCKETS}successful-authentication-total",
        COUNTER,
        LISTENER,
        "Connections that were authenticated by SASL or, without SASL, completed a TLS handshake.",
        counted("authenticated"),
    ),
    BrokerMetric(
        f"{_SOCKETS}failed-authentication-total",
        COUNTER,
        LISTENER,
        "Connections whose authentication or TLS handshake has failed.",
        counted("failed_authentication"),
    ),
    BrokerMetric(
        f"{_SOCKETS}successful-reauthentication-total",
        COUNTER,
        LISTENER,
        "Connections that were authenticated again (KIP-368).",
        counted("reauthenticated"),
    ),
    BrokerMetric(
        f"{_SOCKETS}expired-connections-killed-count",
        COUNT,
        LISTENER,
        "Connections that were closed because they were not authenticated again in time.",
        counted("expired"),
    ),
    BrokerMetric(
        "ottla:type=listener#rejected-connections-total",
        COUNTER,
        ("listener",),
        "Connections that were rejected by a limit.",
        network.rejected,
    ),
    BrokerMetric(
        "ottla:type=listener#blocked-seconds-total",
        COUNTER,
        ("listener",),
        "Seconds in which new connections waited because of max.connections or max.connection.creation.rate.",
        network.blocked,
    ),
    BrokerMetric(
        f"{_SERVER}ExpiredConnectionsKilledCount",
        COUNT,
        NONE,
        "The same as expired-connections-killed-count, of all listeners.",
        network.expired,
    ),
    BrokerMetric(
        f"{_SERVER}MemoryPoolUsed",
        GAUGE,
        NONE,
        "Bytes of large requests that are being received or processed.",
        network.memory_used,
    ),
    BrokerMetric(
        f"{_SERVER}MemoryPoolAvailable",
        GAUGE,
        NONE,
        "Bytes left of queued.max.request.bytes; +Inf without that limit.",
        network.memory_available,
    ),
    # The controller; 0 on other brokers
    BrokerMetric(
        f"{_CONTROLLER}ActiveControllerCount",
        GAUGE,
        NONE,
        "1 on the controller, else 0. The sum over all brokers must be 1.",
        controller.is_active,
    ),
    BrokerMetric(
        f"{_CONTROLLER}ActiveBrokerCount",
        GAUGE,
        NONE,
        "Brokers that are alive and not in their controlled shutdown. 0 unless this broker is the controller.",
        controller.active_brokers,
    ),
    BrokerMetric(
        f"{_CONTROLLER}FencedBrokerCount",
        GAUGE,
        NONE,
        "Brokers in their controlled shutdown. 0 unless this broker is the controller.",
        controller.fenced_brokers,
    ),
    BrokerMetric(
        f"{_CONTROLLER}GlobalTopicCount",
        GAUGE,
        NONE,
        "Topics of the cluster. 0 unless this broker is the controller.",
        controller.topics,
    ),
    BrokerMetric(
        f"{_CONTROLLER}GlobalPartitionCount",
        GAUGE,
        NONE,
        "Partitions of the cluster. 0 unless this broker is the controller.",
        controller.partitions,
    ),
    BrokerMetric(
        f"{_CONTROLLER}OfflinePartitionsCount",
        GAUGE,
        NONE,
        "Partitions without a leader, which cannot be written or read; 0 unless on the controller. Must be 0.",
        controller.offline_partitions,
    ),
    BrokerMetric(
        f"{_CONTROLLER}PreferredReplicaImbalanceCount",
        GAUGE,
        NONE,
        "Partitions that are not led by their preferred replica. 0 unless this broker is the controller.",
        controller.imbalanced,
    ),
    BrokerMetric(
        f"{_CONTROLLER}TopicsToDeleteCount",
        GAUGE,
        NONE,
        "Topics that are being deleted. 0 unless this broker is the controller.",
        controller.topics_to_delete,
    ),
    BrokerMetric(
        f"{_ELECTIONS}LeaderElectionRateAndTimeMs",
        SUMMARY,
        NONE,
        "Time of leader elections in ms, except at the start of a term; partitions of a change are elected together.",
        controller.election_times,
    ),
    BrokerMetric(
        f"{_ELECTIONS}UncleanLeaderElectionsPerSec",
        COUNTER,
        NONE,
        "Elections of leaders that may lack records. Must be 0.",
        controller.unclean_elections,
    ),
    BrokerMetric(
        "kafka.server:type=ZooKeeperClientMetrics,name=ZooKeeperRequestLatencyMs",
        SUMMARY,
        NONE,
        "Time of requests to ZooKeeper in milliseconds, if the cluster has one.",
        controller.zookeeper_times,
    ),
    BrokerMetric(
        "ottla:type=metadata-store#unavailable",
        GAUGE,
        NONE,
        "1 while the metadata store does not answer, is locked or cannot be written, else 0.",
        controller.store_unavailable,
    ),
    BrokerMetric(
        f"{_ZOOKEEPER}SessionState",
        GAUGE,
        STATE,
        "1, with the state of the connection to ZooKeeper as label: CONNECTED, SUSPENDED or LOST.",
        controller.zookeeper_state,
    ),
    BrokerMetric(
        f"{_ZOOKEEPER}ZooKeeperDisconnectsPerSec",
        COUNTER,
        NONE,
        "Lost connections to ZooKeeper.",
        controller.zookeeper_disconnects,
    ),
    BrokerMetric(
        f"{_ZOOKEEPER}ZooKeeperExpiresPerSec",
        COUNTER,
        NONE,
        "Expired sessions of ZooKeeper.",
        controller.zookeeper_expirations,
    ),
    # Logs
    BrokerMetric(f"{_LOG}Size", GAUGE, (*PARTITION, *DIRECTORY), "Bytes of the log's segments.", logs.size),
    BrokerMetric(f"{_LOG}LogStartOffset", GAUGE, PARTITION, "The first offset of the log.", logs.start_offset),
    BrokerMetric(f"{_LOG}LogEndOffset", GAUGE, PARTITION, "The offset after the last record.", logs.end_offset),
    BrokerMetric(f"{_LOG}NumLogSegments", GAUGE, PARTITION, "Segments of the log.", logs.segments),
    BrokerMetric(
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
        SUMMARY,
        NONE,
        "Time of flushes of logs to the disk, in milliseconds.",
        logs.flush_times,
    ),
    BrokerMetric(
        "ottla:type=log-flush#time-ms",
        SUMMARY,
        DIRECTORY,
        "Time of flushes of the logs in a log directory, in milliseconds.",
        logs.directory_flush_times,
    ),
    BrokerMetric(
        "ottla:type=log-flush#slow-total",
        COUNTER,
        DIRECTORY,
        "Flushes that took longer than 500 ms while producers waited for them, because of flush.messages.",
        logs.slow_flushes,
    ),
    BrokerMetric(
        "ottla:type=log-flush#longest-running-seconds",
        GAUGE,
        DIRECTORY,
        "Time since the start of the oldest flush that has not returned; 0 if there is none. Grows if the disk hangs.",
        logs.longest_running_flush,
    ),
    BrokerMetric(
        f"{_LOGS}OfflineLogDirectoryCount",
        GAUGE,
        NONE,
        "Log directories that are out of service.",
        logs.offline_directories,
    ),
    BrokerMetric(
        f"{_LOGS}LogDirectoryOffline",
        GAUGE,
        DIRECTORY,
        "1 if the log directory is out of service, else 0.",
        logs.directory_offline,
    ),
    BrokerMetric(
        "ottla:type=append-queue#queued-bytes",
        GAUGE,
        DIRECTORY,
        "Bytes of appends that wait for the disk of a log directory; 0 while it keeps up.",
        logs.queued_bytes,
    ),
    BrokerMetric(
        "ottla:type=append-queue#slow-writes-total",
        COUNTER,
        DIRECTORY,
        "Appends whose write to the disk of a log directory took longer than 10 ms.",
        logs.slow_writes,
    ),
    BrokerMetric(
        "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
        GAUGE,
        DIRECTORY,
        "Logs whose compaction has failed; they grow until the next start.",
        logs.uncleanable,
    ),
    BrokerMetric(
        "ottla:type=log-cleaner#passes-total",
        COUNTER,
        NONE,
        "Completed passes of the log cleaner.",
        logs.cleaner_passes,
    ),
    BrokerMetric(
        "ottla:type=log-directory#total-bytes",
        GAUGE,
        DIRECTORY,
        "Size in bytes of the log directory's file system.",
        logs.disk_total,
    ),
    BrokerMetric(
        "ottla:type=log-directory#free-bytes",
        GAUGE,
        DIRECTORY,
        "Free bytes of the log directory's file system.",
        logs.disk_free,
    ),
    *COORDINATOR_METRICS,
    *REMOTE_LOG_METRICS,
)

"""Values of the metrics of requests, purgatories, quotas, and fetch and share sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ottla.broker.monitoring.metric import Labels, Samples, Source
from ottla.broker.monitoring.request_stats import ApiStats
from ottla.broker.monitoring.scrape import Scrape
from ottla.broker.quotas.client_quotas import CONSUMER_BYTES, MUTATIONS, PRODUCER_BYTES, REQUEST_PERCENT
from ottla.coordinator.share_partition.share_partition import AcknowledgeType
from ottla.errors import for_code
from ottla.latency import LatencyHistogram, LatencySnapshot

FETCHES = ("FetchConsumer", "FetchFollower")
"""The names of fetches by consumers and by followers, which are reported separately and as the sum `Fetch`."""
WAITING = {
    "Produce": ("Produce",),
    "Fetch": FETCHES,
    "ShareFetch": ("ShareFetch",),
    "ListOffsets": ("ListOffsets",),
    "DeleteRecords": ("DeleteRecords",),
    "ElectLeader": ("ElectLeaders",),
    "Rebalance": ("JoinGroup", "SyncGroup"),
    "Topic": ("CreateTopics", "DeleteTopics", "CreatePartitions"),
}
"""Operations, as in the tag `delayedOperation` of Kafka's purgatories, and the APIs whose requests wait in each."""
QUOTAS = {PRODUCER_BYTES: "Produce", CONSUMER_BYTES: "Fetch"}
RESOURCES = {**QUOTAS, REQUEST_PERCENT: "Request", MUTATIONS: "ControllerMutation"}
NO_ERROR = "NONE"


def _apis(scrape: Scrape) -> Iterator[tuple[str, list[ApiStats]]]:
    """Yield each requested API with its counters, then `Fetch` with those of FETCHES, if there are any."""
    apis = scrape.context.request_stats.apis
    for name, stats in list(apis.items()):
        yield name, [stats]
    fetches = [apis[name] for name in FETCHES if name in apis]
    if fetches:
        yield "Fetch", fetches


def requests(scrape: Scrape) -> Samples:
    for name, stats in _apis(scrape):
        versions = sorted({version for one in stats for version in one.versions})
        for version in versions:
            yield (name, str(version)), sum(one.versions.get(version, 0) for one in stats)


def errors(scrape: Scrape) -> Samples:
    for name, stats in _apis(scrape):
        codes = sorted({code for one in stats for code in one.errors})
        for code in codes:
            yield (name, for_code(code).name if code else NO_ERROR), sum(one.errors.get(code, 0) for one in stats)


def request_bytes(scrape: Scrape) -> Samples:
    for name, stats in _apis(scrape):
        count, total = sum(one.started for one in stats), sum(one.request_bytes for one in stats)
        yield (name,), LatencySnapshot(count, total)


def _times(combine: Callable[[ApiStats, Callable[[LatencyHistogram], LatencySnapshot]], LatencySnapshot]) -> Source:
    def source(scrape: Scrape) -> Iterable[tuple[Labels, LatencySnapshot]]:
        def read(histogram: LatencyHistogram) -> LatencySnapshot:
            return histogram.snapshot(scrape.now)

        for name, stats in _apis(scrape):
            merged = LatencySnapshot()
            for one in stats:
                merged = merged.merged(combine(one, read))
            yield (name,), merged

    return source


local_time = _times(lambda stats, read: read(stats.inline).merged(read(stats.deferred)))
total_time = _times(lambda stats, read: read(stats.inline).merged(read(stats.total)))
queue_time = _times(lambda stats, read: read(stats.queue))


@_times
def remote_time(stats: ApiStats, read: Callable[[LatencyHistogram], LatencySnapshot]) -> LatencySnapshot:
    inline = read(stats.inline)
    return read(stats.remote).with_zeros(inline.count, sum(inline.recent))


def _with_zeros_for_others(
    stats: ApiStats, read: Callable[[LatencyHistogram], LatencySnapshot], measured: LatencySnapshot
) -> LatencySnapshot:
    """Return the measured times, with a time of 0 for each request that was not measured."""
    everything = read(stats.inline).merged(read(stats.deferred))
    others = max(0, everything.count - measured.count)
    return measured.with_zeros(others, max(0, sum(everything.recent) - sum(measured.recent)))


throttle_time = _times(lambda stats, read: _with_zeros_for_others(stats, read, read(stats.throttle)))
send_time = _times(lambda stats, read: _with_zeros_for_others(stats, read, read(stats.send)))
# always 0: the event loop writes a response itself, so there is no queue of responses
response_queue_time = _times(lambda stats, read: _with_zeros_for_others(stats, read, LatencySnapshot()))


def conversion_time(scrape: Scrape) -> Samples:
    stats = scrape.context.partitions.topic_stats
    yield ("Produce",), stats.produce_conversion_times.snapshot(scrape.now)
    yield ("Fetch",), stats.fetch_conversion_times.snapshot(scrape.now)


def temporary_bytes(scrape: Scrape) -> Samples:
    stats = scrape.context.partitions.topic_stats
    for name, times, nbytes in (
        ("Produce", stats.produce_conversion_times, stats.produce_conversion_bytes),
        ("Fetch", stats.fetch_conversion_times, stats.fetch_conversion_bytes),
    ):
        yield (name,), LatencySnapshot(times.snapshot(scrape.now).count, nbytes)


def waiting(scrape: Scrape) -> Samples:
    apis = scrape.context.request_stats.apis
    for operation, names in WAITING.items():
        yield (operation,), sum(apis[name].waiting for name in names if name in apis)


def quota_byte_rates(scrape: Scrape) -> Samples:
    for usage in scrape.context.quotas.usage():
        if usage.quota in QUOTAS:
            yield (QUOTAS[usage.quota], usage.user, usage.client_id), usage.per_second


def quota_request_percents(scrape: Scrape) -> Samples:
    for usage in scrape.context.quotas.usage():
        if usage.quota == REQUEST_PERCENT:
            yield ("Request", usage.user, usage.client_id), usage.per_second


def quota_mutation_rates(scrape: Scrape) -> Samples:
    for usage in scrape.context.quotas.usage():
        if usage.quota == MUTATIONS:
            yield (RESOURCES[MUTATIONS], usage.user, usage.client_id), usage.per_second


def quota_throttle_times(scrape: Scrape) -> Samples:
    for usage in scrape.context.quotas.usage():
        yield (RESOURCES[usage.quota], usage.user, usage.client_id), usage.throttle_ms


def share_sessions(scrape: Scrape) -> int:
    return len(scrape.context.share_sessions)


def share_session_partitions(scrape: Scrape) -> int:
    return scrape.context.share_sessions.partition_count


def share_session_evictions(scrape: Scrape) -> int:
    return scrape.context.share_sessions.evictions


def share_acknowledgements(scrape: Scrape) -> Samples:
    counts = scrape.context.partitions.topic_stats.acknowledgements
    for kind in AcknowledgeType:
        if kind is not AcknowledgeType.GAP:
            yield (kind.name.capitalize(),), counts[kind]


def fetch_sessions(scrape: Scrape) -> int:
    return len(scrape.context.fetch_sessions)


def fetch_session_partitions(scrape: Scrape) -> int:
    return scrape.context.fetch_sessions.partition_count

"""Writes the dashboards for Grafana in monitoring/grafana: `python -m scripts.dashboards`, part of `make docs`.

A dashboard is a list of panels, a panel a title, a unit, and its queries with their legends.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = Path(__file__).resolve().parent.parent / "monitoring" / "grafana"
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT, COLUMNS = 8, 7, 3
STAT_WIDTH, STAT_HEIGHT, STATS = 4, 4, 6
JOB: Final = 'job="$job"'
BROKER: Final = 'job="$job",instance=~"$instance"'


class Query(NamedTuple):
    """A query and the legend of its series."""

    expr: str
    legend: str


class Panel(NamedTuple):
    """A panel: a chart over time, or one number if `threshold` says from which value on it is red."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    threshold: float | None = None


class Variable(NamedTuple):
    """A choice at the head of a dashboard: the values of a label."""

    name: str
    query: str


INSTANCE: Final = Variable("instance", f"label_values(kafka_server_kafkaserver_brokerstate{{{JOB}}}, instance)")
TOPIC: Final = Variable("topic", f"label_values(kafka_log_log_size{{{JOB}}}, topic)")
GROUP: Final = Variable("group", f"label_values(kafka_consumergroup_members{{{JOB}}}, consumergroup)")
SPARK: Final = "ottla_spark_streaming_query_metrics_"
SPARK_QUERY: Final = Variable("query", f"label_values({SPARK}running{{{JOB}}}, query)")
QUERY: Final = f'{JOB},query=~"$query"'


def _rate(metric: str, labels: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def _of_topics(title: str, unit: str, metric: str) -> Panel:
    name = f"kafka_server_brokertopicmetrics_{metric}_total"
    return Panel(title, unit, (Query(_rate(name, f'{BROKER},topic=""', "instance"), "{{instance}}"),))


def _per_topic(title: str, unit: str, metric: str) -> Panel:
    name = f"kafka_server_brokertopicmetrics_{metric}_total"
    labels = f'{JOB},topic=~"$topic",topic!=""'
    return Panel(title, unit, (Query(_rate(name, labels, "topic"), "{{topic}}"),))


def _phase(title: str, phase: str) -> Panel:
    metric = f"kafka_network_requestmetrics_{phase}timems"
    requests = 'request=~"Produce|FetchConsumer|FetchFollower"'
    expr = f'max by (request) ({metric}{{{BROKER},{requests},quantile="0.99"}})'
    return Panel(title, "ms", (Query(expr, "{{request}}"),))


def _number(title: str, expr: str, threshold: float) -> Panel:
    return Panel(title, "short", (Query(expr, ""),), threshold)


def _gauge(title: str, unit: str, metric: str, labels: str = BROKER, legend: str = "{{instance}}") -> Panel:
    return Panel(title, unit, (Query(f"{metric}{{{labels}}}", legend),))


REPLICAS: Final = "kafka_server_replicamanager_"
CONTROLLER: Final = "kafka_controller_kafkacontroller_"
SOCKETS: Final = "kafka_server_socket_server_metrics_"

BROKERS_PANELS: Final = (
    _number("Brokers", f"sum({CONTROLLER}activebrokercount{{{JOB}}})", 1e9),
    _number("Controllers (must be 1)", f"sum({CONTROLLER}activecontrollercount{{{JOB}}})", 2),
    _number("Offline partitions", f"sum({CONTROLLER}offlinepartitionscount{{{JOB}}})", 1),
    _number("Under-replicated", f"sum({REPLICAS}underreplicatedpartitions{{{JOB}}})", 1),
    _number("Under min ISR", f"sum({REPLICAS}underminisrpartitioncount{{{JOB}}})", 1),
    _number("Offline directories", f"sum(kafka_log_logmanager_offlinelogdirectorycount{{{JOB}}})", 1),
    _of_topics("Records in", "cps", "messagesin"),
    _of_topics("Bytes in", "Bps", "bytesin"),
    _of_topics("Bytes out", "Bps", "bytesout"),
    Panel(
        "Replication in and out",
        "Bps",
        (
            Query(
                _rate("kafka_server_brokertopicmetrics_replicationbytesin_total", BROKER, "instance"), "in {{instance}}"
            ),
            Query(
                _rate("kafka_server_brokertopicmetrics_replicationbytesout_total", BROKER, "instance"),
                "out {{instance}}",
            ),
        ),
    ),
    Panel(
        "Requests",
        "reqps",
        (Query(_rate("kafka_network_requestmetrics_requests_total", BROKER, "request"), "{{request}}"),),
    ),
    Panel(
        "Errors in responses",
        "cps",
        (
            Query(
                _rate("kafka_network_requestmetrics_errors_total", f'{BROKER},error!="NONE"', "request, error"),
                "{{request}} {{error}}",
            ),
        ),
    ),
    _phase("Total time, 99 %", "total"),
    _phase("Local time, 99 %", "local"),
    _phase("Remote time, 99 %", "remote"),
    _phase("Time in the queue, 99 %", "requestqueue"),
    _gauge(
        "Idle share of the event loop",
        "percentunit",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    ),
    Panel(
        "Stalls of the event loop",
        "short",
        (Query(f"increase(ottla_event_loop_stalls_total{{{BROKER}}}[$__rate_interval])", "{{instance}}"),),
    ),
    Panel(
        "ISR shrinks and expansions",
        "cps",
        (
            Query(_rate(f"{REPLICAS}isrshrinks_total", BROKER, "instance"), "shrinks {{instance}}"),
            Query(_rate(f"{REPLICAS}isrexpands_total", BROKER, "instance"), "expansions {{instance}}"),
        ),
    ),
    _gauge("Lag of followers", "short", "kafka_server_replicafetchermanager_maxlag"),
    _gauge("Leaders", "short", f"{REPLICAS}leadercount"),
    _gauge("Connections", "short", f"{SOCKETS}connection_count", legend="{{instance}} {{listener}}"),
    Panel(
        "Failed authentications",
        "cps",
        (
            Query(
                _rate(f"{SOCKETS}failed_authentication_total", BROKER, "instance, listener"),
                "{{instance}} {{listener}}",
            ),
        ),
    ),
    _gauge(
        "Throttle times of clients above a quota",
        "ms",
        "kafka_server_quota_throttle_time",
        legend="{{resource}} {{user}} {{clientId}}",
    ),
    _gauge(
        "Waiting requests",
        "short",
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        legend="{{instance}} {{delayedOperation}}",
    ),
    _gauge(
        "Free bytes of log directories",
        "bytes",
        "ottla_log_directory_free_bytes",
        legend="{{instance}} {{logDirectory}}",
    ),
    Panel(
        "Time of flushes, 99 %",
        "ms",
        (Query(f'ottla_log_flush_time_ms{{{BROKER},quantile="0.99"}}', "{{instance}} {{logDirectory}}"),),
    ),
    Panel(
        "Slow flushes that producers waited for",
        "short",
        (
            Query(
                f"increase(ottla_log_flush_slow_total{{{BROKER}}}[$__rate_interval])", "{{instance}} {{logDirectory}}"
            ),
        ),
    ),
    _gauge("Memory", "bytes", "process_resident_memory_bytes"),
    Panel("CPU", "short", (Query(f"rate(process_cpu_seconds_total{{{BROKER}}}[$__rate_interval])", "{{instance}}"),)),
)

TOPICS_PANELS: Final = (
    _per_topic("Records in", "cps", "messagesin"),
    _per_topic("Bytes in", "Bps", "bytesin"),
    _per_topic("Bytes out", "Bps", "bytesout"),
    _per_topic("Failed batches", "cps", "failedproducerequests"),
    _per_topic("Failed fetches", "cps", "failedfetchrequests"),
    _per_topic("Bytes rejected as too large", "Bps", "bytesrejected"),
    Panel(
        "Bytes on disk, all replicas",
        "bytes",
        (Query(f'sum by (topic) (kafka_log_log_size{{{JOB},topic=~"$topic"}})', "{{topic}}"),),
    ),
    Panel(
        "Records in the log",
        "short",
        (
            Query(
                f'sum by (topic) (max by (topic, partition) (kafka_log_log_logendoffset{{{JOB},topic=~"$topic"}})'
                f' - min by (topic, partition) (kafka_log_log_logstartoffset{{{JOB},topic=~"$topic"}}))',
                "{{topic}}",
            ),
        ),
    ),
    Panel(
        "Under-replicated partitions",
        "short",
        (Query(f'sum by (topic) (kafka_cluster_partition_underreplicated{{{JOB},topic=~"$topic"}})', "{{topic}}"),),
    ),
    Panel(
        "Records of open transactions, and behind them",
        "short",
        (Query(f'max by (topic) (kafka_cluster_partition_laststableoffsetlag{{{JOB},topic=~"$topic"}})', "{{topic}}"),),
    ),
)

GROUPS_PANELS: Final = (
    Panel(
        "Lag",
        "short",
        (
            Query(
                f'sum by (consumergroup, topic) (kafka_consumergroup_lag_sum{{{JOB},consumergroup=~"$group"}})',
                "{{consumergroup}} {{topic}}",
            ),
        ),
    ),
    Panel(
        "Partitions with the greatest lag",
        "short",
        (
            Query(
                f'topk(10, kafka_consumergroup_lag{{{JOB},consumergroup=~"$group"}})',
                "{{consumergroup}} {{topic}}-{{partition}}",
            ),
        ),
    ),
    Panel(
        "Records committed",
        "cps",
        (
            Query(
                "sum by (consumergroup, topic) (rate("
                f'kafka_consumergroup_current_offset{{{JOB},consumergroup=~"$group"}}[$__rate_interval]))',
                "{{consumergroup}} {{topic}}",
            ),
        ),
    ),
    _gauge("Members", "short", "kafka_consumergroup_members", f'{JOB},consumergroup=~"$group"', "{{consumergroup}}"),
    Panel(
        "Groups by protocol",
        "short",
        (Query(f"sum by (protocol) (kafka_server_group_coordinator_metrics_group_count{{{JOB}}})", "{{protocol}}"),),
    ),
    Panel(
        "Rebalances",
        "cps",
        (
            Query(
                _rate("kafka_server_group_coordinator_metrics_group_completed_rebalance_count", JOB, "instance"),
                "classic {{instance}}",
            ),
            Query(
                _rate("kafka_server_group_coordinator_metrics_consumer_group_rebalance_count", JOB, "instance"),
                "consumer {{instance}}",
            ),
        ),
    ),
    Panel(
        "Groups that rebalance most, in 10 minutes",
        "short",
        (
            Query(
                "topk(10, sum by (consumergroup) (increase("
                f'kafka_consumergroup_rebalances_total{{{JOB},consumergroup=~"$group"}}[10m])))',
                "{{consumergroup}}",
            ),
        ),
    ),
    Panel(
        "Offset commits",
        "cps",
        (Query(_rate("kafka_server_group_coordinator_metrics_offset_commit_count", JOB, "instance"), "{{instance}}"),),
    ),
)


def _of_query(title: str, unit: str, metric: str, legend: str = "{{query}}", labels: str = "") -> Panel:
    return Panel(title, unit, (Query(f"{SPARK}{metric}{{{QUERY}{labels}}}", legend),))


SPARK_PANELS: Final = (
    _number("Running queries", f"sum({SPARK}running{{{JOB}}})", 1e9),
    _number("Queries that do not run", f"count({SPARK}running{{{JOB}}} == 0) or vector(0)", 1),
    _number("Offsets behind", f'sum({SPARK}offsets_behind_latest{{{JOB},topic=""}})', 1e12),
    _of_query("Offsets behind", "short", "offsets_behind_latest", labels=',topic=""'),
    _of_query("Offsets behind by topic", "short", "offsets_behind_latest", "{{query}} {{topic}}", ',topic!=""'),
    Panel(
        "Offsets behind, slowest partition",
        "short",
        (Query(f"{SPARK}max_offsets_behind_latest{{{QUERY}}}", "{{query}}"),),
    ),
    Panel("Rows read", "cps", (Query(_rate(f"{SPARK}input_rows_total", QUERY, "query"), "{{query}}"),)),
    _of_query("Rows per second while a micro-batch runs", "cps", "processed_rows_rate"),
    Panel("Micro-batches", "cps", (Query(_rate(f"{SPARK}micro_batches_total", QUERY, "query"), "{{query}}"),)),
    _of_query("Duration of the last micro-batch", "ms", "batch_duration_ms"),
    _of_query("Its phases", "ms", "duration_ms", "{{query}} {{phase}}"),
    _of_query("Rows of state", "short", "state_rows"),
    Panel(
        "Bytes of state",
        "bytes",
        (
            Query(f"{SPARK}state_memory_bytes{{{QUERY}}}", "memory {{query}}"),
            Query(f"{SPARK}state_disk_bytes{{{QUERY}}}", "disk {{query}}"),
        ),
    ),
)


def dashboard(
    title: str,
    uid: str,
    variables: tuple[Variable, ...],
    panels: tuple[Panel, ...],
    of_jobs: str = "kafka_server_kafkaserver_brokerstate",
) -> dict[str, Any]:
    """Return a dashboard as Grafana imports it: numbers in the first row, then charts, three in a row.

    `of_jobs`: a metric that every job of Prometheus with these panels has.
    """
    stats = [panel for panel in panels if panel.threshold is not None]
    charts = [panel for panel in panels if panel.threshold is None]
    shown = [
        _panel(number, panel, STAT_WIDTH, STAT_HEIGHT, (number % STATS) * STAT_WIDTH, number // STATS * STAT_HEIGHT)
        for number, panel in enumerate(stats)
    ]
    top = -(-len(stats) // STATS) * STAT_HEIGHT
    shown += [
        _panel(len(stats) + i, panel, WIDTH, HEIGHT, i % COLUMNS * WIDTH, top + i // COLUMNS * HEIGHT)
        for i, panel in enumerate(charts)
    ]
    job = Variable("job", f"label_values({of_jobs}, job)")
    return {
        "title": title,
        "uid": uid,
        "tags": ["kafka", "ottla"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
                *(_variable(variable, several=variable is not job) for variable in (job, *variables)),
            ]
        },
        "panels": shown,
    }


def _variable(variable: Variable, *, several: bool) -> dict[str, Any]:
    return {
        "name": variable.name,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": variable.query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "multi": several,
        "includeAll": several,
        "current": {"text": "All", "value": "$__all"} if several else {},
    }


def _panel(number: int, panel: Panel, width: int, height: int, x: int, y: int) -> dict[str, Any]:
    targets = [
        {"expr": query.expr, "legendFormat": query.legend, "refId": chr(ord("A") + i), "datasource": DATASOURCE}
        for i, query in enumerate(panel.queries)
    ]
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.threshold is not None:
        steps = [{"color": "green", "value": None}, {"color": "red", "value": panel.threshold}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return {
        "id": number + 1,
        "title": panel.title,
        "type": "timeseries" if panel.threshold is None else "stat",
        "datasource": DATASOURCE,
        "gridPos": {"w": width, "h": height, "x": x, "y": y},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": targets,
    }


DASHBOARDS: Final = {
    "brokers.json": dashboard("Kafka brokers", "ottla-brokers", (INSTANCE,), BROKERS_PANELS),
    "topics.json": dashboard("Kafka topics", "ottla-topics", (TOPIC,), TOPICS_PANELS),
    "groups.json": dashboard("Kafka consumer groups", "ottla-groups", (GROUP,), GROUPS_PANELS),
    "spark.json": dashboard(
        "Spark streaming queries", "ottla-spark", (SPARK_QUERY,), SPARK_PANELS, of_jobs=f"{SPARK}running"
    ),
}


def rendered(name: str) -> str:
    """Return the file of a dashboard."""
    return json.dumps(DASHBOARDS[name], indent=2) + "\n"


def main() -> None:
    """Write all dashboards."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in DASHBOARDS:
        (FOLDER / name).write_text(rendered(name))


if __name__ == "__main__":
    main()

"""The table of metrics: Prometheus names derived from Kafka's MBeans, and help texts."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from ottla.broker.monitoring.metric import BrokerMetric, Kind
from ottla.broker.monitoring.metric_table import METRICS


@pytest.mark.parametrize(
    ("mbean", "kind", "name"),
    [
        (
            "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec",
            Kind.COUNTER,
            "kafka_server_brokertopicmetrics_messagesin_total",
        ),
        (
            "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions",
            Kind.GAUGE,
            "kafka_server_replicamanager_underreplicatedpartitions",
        ),
        (
            "kafka.network:type=RequestMetrics,name=TotalTimeMs",
            Kind.SUMMARY,
            "kafka_network_requestmetrics_totaltimems",
        ),
        (
            "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
            Kind.GAUGE,
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        ),
        (
            "kafka.server:type=socket-server-metrics#connection-count",
            Kind.GAUGE,
            "kafka_server_socket_server_metrics_connection_count",
        ),
        (
            "kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups",
            Kind.GAUGE,
            "kafka_coordinator_group_groupmetadatamanager_numgroups",
        ),
        ("process_open_fds", Kind.GAUGE, "process_open_fds"),
    ],
)
def test_name_follows_the_common_rules_of_the_jmx_exporter(mbean: str, kind: Kind, name: str) -> None:
    assert BrokerMetric(mbean, kind, (), "", lambda _: 0).name == name


def test_names_are_unique_and_valid() -> None:
    assert [name for name, times in Counter(metric.name for metric in METRICS).items() if times > 1] == []
    assert [metric.name for metric in METRICS if not re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)] == []


def test_only_names_of_counters_end_with_total() -> None:
    wrong = [m.name for m in METRICS if m.name.endswith("_total") is not (m.kind is Kind.COUNTER)]
    assert wrong == []


def test_help_is_one_line_that_ends_with_a_full_stop() -> None:
    assert [metric.help for metric in METRICS if not metric.help.endswith(".") or "\n" in metric.help] == []
    assert [metric.help for metric in METRICS if "\\" in metric.help] == []

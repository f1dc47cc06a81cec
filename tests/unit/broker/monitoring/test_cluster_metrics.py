"""The metrics of a cluster of three brokers, scraped over HTTP, also while one is stopped."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest
from tests.unit.broker.monitoring.scraping import Scraped, parsed

from ottla import Broker, KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition

UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"
SECONDS = 30.0


def pages(cluster: Broker) -> dict[int, Scraped]:
    """The metrics of all running brokers."""
    scraped = {}
    for broker_id, node in cluster._nodes.items():
        with urllib.request.urlopen(f"{node.http_url}/metrics", timeout=SECONDS) as response:
            scraped[broker_id] = parsed(response.read().decode())
    return scraped


def total(scraped: dict[int, Scraped], name: str, **labels: str) -> float:
    return sum(value for page in scraped.values() for value in page.values(name, **labels))


def until(cluster: Broker, condition: Callable[[dict[int, Scraped]], bool]) -> dict[int, Scraped]:
    deadline = time.monotonic() + SECONDS
    while not condition(scraped := pages(cluster)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return scraped


@pytest.fixture
def cluster() -> Broker:
    return Broker({"ottla.http.listener": "127.0.0.1:0"}, brokers=3)


def test_stopped_broker_appears_in_the_metrics_of_the_others(cluster: Broker) -> None:
    with cluster, KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("visits", 3, 3)])
        scraped = until(cluster, lambda s: total(s, "kafka_server_replicamanager_leadercount") == 3)
        assert total(scraped, "kafka_controller_kafkacontroller_activecontrollercount") == 1
        assert total(scraped, UNDER_REPLICATED) == 0
        assert total(scraped, "kafka_controller_kafkacontroller_activebrokercount") == 3
        cluster.stop_broker(2)
        scraped = until(cluster, lambda s: total(s, UNDER_REPLICATED) == 3)
        assert total(scraped, "kafka_cluster_partition_underreplicated", topic="visits") == 3
        until(cluster, lambda s: total(s, "kafka_controller_kafkacontroller_activecontrollercount") == 1)
        assert _ready(cluster) == {200}
        assert 503 in _ready(cluster, "?isr=1")
        cluster.start_broker(2)
        scraped = until(cluster, lambda s: total(s, UNDER_REPLICATED) == 0)
        assert total(scraped, "kafka_server_replicamanager_isrexpands_total") >= 1
        assert _ready(cluster, "?isr=1") == {200}


def test_replication_and_lag_are_measured_across_brokers(cluster: Broker) -> None:
    with cluster, KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        servers = cluster.bootstrap_servers
        admin.create_topics([NewTopic("copied", 1, 3), NewTopic("single", 3, 1)])
        with KafkaProducer(bootstrap_servers=servers, acks="all") as producer:
            for _ in range(10):
                producer.send("copied", b"x").get(SECONDS)
            for partition in range(3):
                for _ in range(4):
                    producer.send("single", b"x", partition=partition).get(SECONDS)
        consumer = KafkaConsumer(bootstrap_servers=servers, group_id="g", enable_auto_commit=False)
        with consumer:
            consumer.assign([TopicPartition("single", partition) for partition in range(3)])
            consumer.seek_to_beginning()
            for partition in range(3):
                consumer.seek(TopicPartition("single", partition), 1)
            consumer.commit()
        scraped = pages(cluster)
        # each partition has one replica, and the coordinator of the group leads at most one of them
        assert total(scraped, "kafka_consumergroup_lag_sum", consumergroup="g", topic="single") == 9
        bytes_in = total(scraped, "kafka_server_brokertopicmetrics_bytesin_total", topic="copied")
        replicated = total(scraped, "kafka_server_brokertopicmetrics_replicationbytesin_total")
        assert replicated >= 2 * bytes_in > 0
        assert total(scraped, "kafka_network_requestmetrics_requests_total", request="FetchFollower") > 0
        assert total(scraped, "kafka_server_replicafetchermanager_maxlag", clientId="Replica") == 0


def _ready(cluster: Broker, query: str = "") -> set[int]:
    statuses = set()
    for node in cluster._nodes.values():
        try:
            with urllib.request.urlopen(f"{node.http_url}/readyz{query}", timeout=SECONDS) as response:
                statuses.add(response.status)
        except urllib.error.HTTPError as error:
            statuses.add(error.code)
    return statuses

"""Bytes per second from the metrics of brokers."""

from __future__ import annotations

import re
import time

from tests.unit.console.consoles import open_console

from ottla import KafkaProducer
from ottla.broker.embedded import Broker
from ottla.net.ports import free_port
from ottla_console.cluster.byte_rates import MAX_TOPICS, _chosen, counters_of

PAGE = """\
# TYPE kafka_server_brokertopicmetrics_bytesin_total counter
kafka_server_brokertopicmetrics_bytesin_total 1.5E3
kafka_server_brokertopicmetrics_bytesin_total{topic="visits"} 1000
kafka_server_brokertopicmetrics_bytesin_total{topic="jmx",} 500.0
kafka_server_brokertopicmetrics_bytesin_total{broker="1",topic="more"} 7 1700000000
kafka_server_brokertopicmetrics_bytesout_total{} 9
kafka_server_brokertopicmetrics_bytesrejected_total 3
kafka_server_brokertopicmetrics_bytesin_total{topic="broken" 1
"""


def test_counters_are_parsed_from_metrics_of_ottla_and_the_jmx_exporter() -> None:
    assert counters_of(PAGE) == {
        ("in", ""): 1500,
        ("in", "visits"): 1000,
        ("in", "jmx"): 500,
        ("in", "more"): 7,
        ("out", ""): 9,
    }


def test_viewed_and_busiest_topics_have_a_series() -> None:
    rates = {"in/": 9.0, "in@a:1": 9.0, "in/viewed": 0.0, **{f"in/t{i}": float(i) for i in range(2 * MAX_TOPICS)}}
    charted = _chosen(rates, ["viewed", "deleted"])
    assert len(charted) == MAX_TOPICS + 3
    assert {"in/", "in@a:1", "in/viewed", f"in/t{2 * MAX_TOPICS - 1}"} <= charted.keys()
    assert "in/t0" not in charted


def test_byte_rates_are_charted_and_unreachable_metrics_are_reported(ottla_topic: str, unused_address: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    with Broker({"ottla.http.listener": address}) as broker:
        with open_console(broker.bootstrap_servers, broker_metrics=(address, unused_address)) as browser:
            deadline, topic, text = time.monotonic() + 30, f"/topics/{ottla_topic}", ""
            while not re.search(r'aria-label="Bytes in per second: \d', text) and time.monotonic() < deadline:
                with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
                    producer.send(ottla_topic, b"v" * 1000)
                text = browser.text(topic)
            assert re.search(r'aria-label="Bytes in per second: [\d.]+ K?i?B/s at', text)
            assert 'aria-label="Bytes out per second: 0 B/s at' in browser.text("/")
            text = browser.text("/brokers")
            assert re.search(rf'<code>{address}</code></th><td class="n">[\d.]+ K?i?B/s</td>', text)
            assert re.search(rf'<code>{unused_address}</code> <span class="badge bad">[^<]*refused', text)

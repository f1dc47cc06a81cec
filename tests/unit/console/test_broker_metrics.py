"""Quota usage and rebalances from the metrics of brokers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable

import pytest
from tests.unit.console.consoles import ConsoleBrowser, open_console

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.broker.embedded import Broker
from ottla.client.admin.quotas import ClientQuotaAlteration
from ottla.errors import ConfigurationError, NotEnoughReplicasError
from ottla.net.ports import free_port
from ottla_console.cluster.directories import DirectoryRow, _size
from ottla_console.cluster.disk_space import FullDisk, OfflineDirectory, full_disks, offline_directories
from ottla_console.cluster.flush_times import FlushRow, flush_rows
from ottla_console.cluster.metric_pages import MetricPages, MetricSample, samples_of
from ottla_console.cluster.quota_usage import MAX_ROWS, UsageRow, usage_of
from ottla_console.cluster.rebalances import REBALANCES, WINDOW_SECONDS, WINDOWS, RecentRebalances

QUOTA_PAGE = """\
# TYPE kafka_server_quota_byte_rate gauge
kafka_server_quota_byte_rate{resource="Produce",user="",clientId="importer"} 64634
kafka_server_quota_byte_rate{resource="Fetch",user="ann",clientId=""} 12.5
kafka_server_quota_request_time{resource="Request",user="ann",clientId="a \\"b\\" } c"} 1e-3
kafka_server_quota_throttle_time{resource="Produce",user="",clientId="importer"} 1634.12
kafka_server_quota_throttle_time{resource="Fetch",user="ann",clientId=""} 0
kafka_server_quota_byte_rate{resource="Unknown",user="",clientId="x"} 1
"""


def test_metric_labels_are_unescaped() -> None:
    assert list(samples_of('m{a="x\u2028m 1\r"} 2\n', "m")) == [MetricSample("m", {"a": "x\u2028m 1\r"}, 2)]
    page = 'm{a="1",b="x \\"y\\" \\\\ }\\n"} -1.5E3 1700000000\nm 2\nm{broken 3\nother 4\n'
    assert list(samples_of(page, "m")) == [
        MetricSample("m", {"a": "1", "b": 'x "y" \\ }\n'}, -1500),
        MetricSample("m", {}, 2),
    ]


@pytest.mark.parametrize("address", ["", "file:///etc/passwd", "http://", "http://me:secret@a:1/metrics", "a:1/b?c"])
def test_malformed_metrics_address_is_rejected(address: str) -> None:
    with pytest.raises(ConfigurationError, match="--broker-metrics"):
        MetricPages([address], [])


async def test_metrics_page_that_is_not_http_is_an_error_of_its_address() -> None:
    async def respond(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0\r\n")
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        pages = MetricPages([address], [])
        assert await pages.read() == {address: ""}
        assert "SSH-2.0" in pages.errors[address]


def test_quota_usage_lists_throttled_clients_first_with_their_limit() -> None:
    importer, ann, other = usage_of({"a:1": QUOTA_PAGE, "b:1": ""})
    assert importer == UsageRow("a:1", "producer_byte_rate", "", "importer", 64634, 1634.12)
    assert (ann.user, ann.rate, ann.throttle_ms) == ("ann", 12.5, 0)
    assert (other.client_id, other.quota, other.rate) == ('a "b" } c', "request_percentage", 0.001)
    quotas = {
        (("client-id", None),): {"producer_byte_rate": 10.0},
        (("user", None), ("client-id", None)): {"request_percentage": 5.0},
        (("user", "ann"),): {"consumer_byte_rate": 7.0, "request_percentage": 1.0},
    }
    assert [row.limit(quotas) for row in (importer, ann, other)] == [10, 7, 5]
    quotas[("client-id", "importer"),] = {"producer_byte_rate": 20.0}
    assert importer.limit(quotas) == 20
    assert ann.limit({}) is None


def test_quota_usage_rows_are_limited() -> None:
    lines = [
        f'kafka_server_quota_byte_rate{{resource="Produce",user="",clientId="c{i}"}} {i}' for i in range(MAX_ROWS + 10)
    ]
    rows = usage_of({"a:1": "\n".join(lines)})
    assert len(rows) == MAX_ROWS
    assert rows[0].client_id == f"c{MAX_ROWS + 9}"


def counters(**groups: int) -> str:
    return "other 1\n" + "".join(f'{REBALANCES}{{consumergroup="{name}"}} {n}\n' for name, n in groups.items())


def test_recent_rebalances_are_summed_over_brokers_and_restarts() -> None:
    recent = RecentRebalances()
    recent.update(0, {"a": "other 1\n", "b": ""})
    assert recent.for_group("g") is None
    recent.update(10, {"a": counters(g=3), "b": counters(h=100)})
    assert (recent.for_group("g"), recent.for_group("h")) == (3, 0)
    recent.update(70, {"a": "", "b": counters(h=101)})  # a does not respond
    recent.update(80, {"a": counters(g=5), "b": counters(h=2)})  # b has restarted
    assert (recent.for_group("g"), recent.for_group("h"), recent.for_group("missing")) == (5, 3, 0)
    recent.update(100, {"a": counters(), "b": counters(h=2, g=1)})  # b coordinates g now
    assert recent.for_group("g") == 6
    recent.update(10 + WINDOWS * WINDOW_SECONDS, {"a": counters(), "b": counters(h=2, g=1)})
    assert (recent.for_group("g"), recent.for_group("h")) == (3, 3)
    recent.update(1000 + WINDOWS * WINDOW_SECONDS, {"a": counters(), "b": counters(h=2, g=1)})
    assert recent.for_group("g") == 0


def wait_for(browser: ConsoleBrowser, path: str, pattern: str, meanwhile: Callable[[], object] = lambda: None) -> str:
    deadline, text = time.monotonic() + 30, ""
    while re.search(pattern, text) is None:
        assert time.monotonic() < deadline, text
        time.sleep(0.02)  # for the broker, which is in the same process
        meanwhile()
        text = browser.text(path)
    return text


FLUSH_PAGE = """\
ottla_log_flush_time_ms{logDirectory="/data/b",quantile="0.99"} 812.5
ottla_log_flush_time_ms_count{logDirectory="/data/b"} 7
ottla_log_flush_time_ms_count{logDirectory="/data/a"} 0
ottla_log_flush_slow_total{logDirectory="/data/b"} 2
ottla_log_flush_longest_running_seconds{logDirectory="/data/a"} 0
"""


def test_flush_rows_list_hanging_and_slow_directories_first() -> None:
    hanging_page = 'ottla_log_flush_longest_running_seconds{logDirectory="/data/a"} 42\n'
    hanging, slow, fast = flush_rows({"a:1": FLUSH_PAGE, "b:1": hanging_page})
    assert (hanging.address, hanging.directory, hanging.hangs, hanging.is_slow) == ("b:1", "/data/a", True, True)
    assert slow == FlushRow("a:1", "/data/b", 7, 812.5, 2, 0)
    assert (slow.hangs, slow.is_slow) == (False, True)
    assert fast == FlushRow("a:1", "/data/a", 0, None, 0, 0)
    assert not fast.is_slow


def test_log_directories_out_of_service_are_read_from_the_metrics() -> None:
    name = "kafka_log_logmanager_logdirectoryoffline"
    page = f'{name}{{logDirectory="/data/a"}} 0\n{name}{{logDirectory="/data/b"}} 1\n'
    assert offline_directories({"a:1": page, "b:1": ""}) == [OfflineDirectory("a:1", "/data/b")]


def test_full_disks_lists_the_fullest_first_and_omits_others() -> None:
    sizes = {"/full": (0, 100), "/nearly": (9, 100), "/half": (50, 100), "/unknown": (0, 0)}
    page = "".join(
        f'ottla_log_directory_free_bytes{{logDirectory="{path}"}} {free}\n'
        f'ottla_log_directory_total_bytes{{logDirectory="{path}"}} {total}\n'
        for path, (free, total) in sizes.items()
    )
    assert full_disks({"a:1": page, "b:1": ""}) == [FullDisk(0, 0, "a:1", "/full"), FullDisk(9, 9, "a:1", "/nearly")]


def test_log_dir_size_zero_is_full_and_unknown_size_is_none() -> None:
    assert [_size(0), _size(-1), _size(None)] == [0, None, None]
    full = DirectoryRow(0, "/full", None, 1, 100, 0, 100, 0)
    assert full.used_percent == 100


def test_throttled_client_and_rebalancing_group_are_shown() -> None:
    address = f"127.0.0.1:{free_port()}"
    configs = {
        "ottla.http.listener": address,
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
    }
    with Broker(configs) as broker, KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        servers = broker.bootstrap_servers
        admin.alter_client_quotas([ClientQuotaAlteration({"client-id": "importer"}, {"producer_byte_rate": 100.0})])
        with open_console(servers, broker_metrics=(address,)) as browser:
            assert "No client with a quota" in browser.text("/quotas")
            with KafkaProducer(bootstrap_servers=servers, client_id="importer") as producer:
                producer.send("visits", b"v" * 1000)
            throttled = r'importer</td>.*<td class="n">100</td>.*<span class="badge bad">throttled</span> [\d.,]+ ms'
            wait_for(browser, "/quotas", throttled)
            wait_for(browser, "/log-dirs", r"99 % in</th>")
            wait_for(browser, "/groups", "no groups yet")
            with KafkaConsumer(
                "visits", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest"
            ) as c:
                c.poll(timeout_ms=10_000)
                wait_for(browser, "/group?id=billing", r"<dt>Rebalances</dt><dd>1</dd>")
                with KafkaConsumer("visits", bootstrap_servers=servers, group_id="billing") as other:
                    preparing_rebalance = r'<span class="badge warn">PreparingRebalance</span>'
                    wait_for(browser, "/groups", preparing_rebalance, meanwhile=lambda: other.poll(timeout_ms=1))
                    wait_for(browser, "/", r'0 behind, <span class="warn">1 rebalancing</span>')
            wait_for(browser, "/groups?order=rebalances", r'billing</a></th>.*<td class="n">[1-9]\d*</td>')


def test_down_broker_is_shown_and_rejected_produce_requests_are_logged(
    unused_address: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ottla.request.rejected")
    address = f"127.0.0.1:{free_port(in_a_row=2)}"
    with Broker({"ottla.http.listener": address, "min.insync.replicas": "2"}, brokers=2) as broker:
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("visits", 3, 2)])
        broker.kill_broker(1)
        with open_console(broker.bootstrap_servers, broker_metrics=(address, unused_address)) as browser:
            browser.wait()
            wait_for(browser, "/", r"3 partitions have fewer in-sync replicas than <code>min\.insync\.replicas")
            text = wait_for(browser, "/", "Broker 1 is down</b>: it has 3 replicas")
            assert "1 down" in text
            text = wait_for(browser, "/brokers", r'1 <span class="badge bad">down</span>')
            servers = broker.bootstrap_servers
            with KafkaProducer(
                bootstrap_servers=servers, client_id="shop", retries=0, enable_idempotence=False
            ) as producer:
                reason = "visits-0 has 1 in-sync replica(s), min.insync.replicas is 2"
                with pytest.raises(NotEnoughReplicasError, match=re.escape(reason)):
                    producer.send("visits", b"v", partition=0).get(10)
            assert f"client_id=shop) with NOT_ENOUGH_REPLICAS: {reason}" in caplog.text
            assert '<span class="badge bad">Connection refused</span></th><td class="n">\N{EN DASH}</td>' in text

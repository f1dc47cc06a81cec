"""The pages of the console against a broker: topics, messages, groups, quotas, users."""

from __future__ import annotations

import html
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.client.streams_thread import StreamsThread
from tests.unit.console.consoles import ConsoleBrowser, open_console

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer
from ottla.broker.embedded import Broker
from ottla.model import TopicPartition
from ottla_console.cluster.directories import largest_topics
from ottla_console.pages import messages
from ottla_console.pages.record_view import shown_records


def produce(broker: Broker, topic: str, *values: bytes | None) -> None:
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, key=b"k%d" % number)


def offsets_of(text: str) -> list[int]:
    """Return the offsets on a page of messages, from top to bottom."""
    return [
        int(cells.replace(",", "")) for cells in re.findall(r'<td class="n">\d+</td><td class="n">([\d,]+)</td>', text)
    ]


def cursor_of(text: str) -> str:
    """Return the path of the link to further messages."""
    match = re.search(r'href="(\?[^"]*cursor=[^"]+)"', text)
    assert match is not None
    return html.unescape(match[1])


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/", "Overview"),
        ("/brokers", "Brokers"),
        ("/topics", "Topics"),
        ("/topics/create", "Create a topic"),
        ("/groups", "Groups"),
        ("/transactions", "Transactions"),
        ("/acls", "ACLs"),
        ("/users", "Users"),
        ("/quotas", "Quotas"),
        ("/log-dirs", "Log directories"),
    ],
)
def test_page_has_a_title_and_no_inline_script(console: ConsoleBrowser, path: str, title: str) -> None:
    text = console.text(path)
    assert f"<title>{title} · Ottla</title>" in text
    assert re.search(r"<script(?! src=)|\son\w+=|style=", text) is None


def test_topic_is_created_altered_extended_and_deleted(
    console: ConsoleBrowser, ottla_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ottla.controller")
    fields = {"name": ottla_topic, "partitions": "2", "replicas": "1", "configs": "retention.ms=1000\n"}
    text = console.post("/topics/create", fields, form="/topics/create")
    assert f"Topic {ottla_topic} was created." in text
    assert "dynamic topic" in text
    page = f"/topics/{ottla_topic}"
    changed = {"name": "retention.ms", "value": "5000", "operation": "set"}
    assert "retention.ms is &#39;5000&#39; now." in console.post(f"{page}/configs", changed, form=page)
    assert "has 3 partitions now" in console.post(f"{page}/partitions", {"partitions": "3"}, form=page)
    assert "type the name of the topic" in console.post(f"{page}/delete", {"confirm": "x"}, form=page, status=400)
    assert "was deleted" in console.post(f"{page}/delete", {"confirm": ottla_topic}, form=page)
    assert ottla_topic in console.text(page, 404)
    (deletion,) = [message for message in caplog.messages if message.startswith(f"Deleting topic {ottla_topic}: ")]
    assert deletion.endswith("client_id=ottla-console)")


def test_purge_deletes_all_records(console: ConsoleBrowser, ottla_broker: Broker, ottla_topic: str) -> None:
    produce(ottla_broker, ottla_topic, b"a", b"b")
    page = f"/topics/{ottla_topic}"
    console.post(f"{page}/purge", {"confirm": ottla_topic}, form=page)
    assert "There are no records here." in console.text(f"{page}/messages")


def test_log_directories_page_lists_the_largest_topics(console: ConsoleBrowser) -> None:
    sizes = {TopicPartition("a", 0): 3, TopicPartition("a", 1): 4, TopicPartition("b", 0): 5, TopicPartition("c", 0): 9}
    assert largest_topics(sizes | {TopicPartition("d", 0): 1}) == (("c", 9), ("a", 7), ("b", 5))
    text = console.text("/log-dirs")
    assert "Largest topics" in text


def test_topics_are_filtered_by_words_and_sorted(console: ConsoleBrowser, ottla_topic: str) -> None:
    fields = {"name": ottla_topic, "partitions": "7", "replicas": "1"}
    console.post("/topics/create", fields, form="/topics/create")
    assert ottla_topic in console.text(f"/topics?search={ottla_topic[-8:]}+topics&order=partitions")
    assert "No topic has" in console.text(f"/topics?search={ottla_topic}+nowhere")


def test_messages_are_newest_first_and_paged_without_gaps(
    console: ConsoleBrowser, ottla_broker: Broker, ottla_topic: str
) -> None:
    produce(ottla_broker, ottla_topic, *(b"record %d" % i for i in range(120)))
    page = f"/topics/{ottla_topic}/messages"
    pages = [console.text(page)]
    for _ in range(2):
        pages.append(console.text(page + cursor_of(pages[-1])))
    assert [offset for text in pages for offset in offsets_of(text)] == list(range(119, -1, -1))
    oldest = console.text(f"{page}?order=oldest")
    assert offsets_of(oldest) == list(range(50))
    assert offsets_of(console.text(page + cursor_of(oldest))) == list(range(50, 100))
    assert offsets_of(console.text(f"{page}?order=offset&at=117")) == [117, 118, 119]
    assert len(offsets_of(console.text(f"{page}?order=time&at=2020-01-01T00:00"))) == 50
    assert "expected a time" in console.text(f"{page}?order=time&at=yesterday", 400)


def test_filter_finds_records_beyond_the_first_page(
    console: ConsoleBrowser, ottla_broker: Broker, ottla_topic: str
) -> None:
    produce(ottla_broker, ottla_topic, b"needle", *(b"hay %d" % i for i in range(600)))
    text = console.text(f"/topics/{ottla_topic}/messages?filter=needle")
    assert offsets_of(text) == [0]
    assert "601 records searched" in text


def test_time_limit_between_two_reads_is_reported_on_a_page_that_is_sorted(
    console: ConsoleBrowser, ottla_broker: Broker, ottla_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(ottla_broker, ottla_topic, *(b"needle" if i % 10 == 0 else b"hay" for i in range(120)))
    now = [0.0]

    async def slow_records(*args: Any) -> Any:
        now[0] += 1.0
        return await shown_records(*args)

    monkeypatch.setattr(messages, "shown_records", slow_records)
    monkeypatch.setattr(messages, "time", SimpleNamespace(monotonic=lambda: now[0]))
    page = f"/topics/{ottla_topic}/messages"
    text = console.text(f"{page}?filter=needle")
    assert offsets_of(text) == [110, 100, 90, 80, 70]
    assert "the time limit was reached" in text
    assert offsets_of(console.text(page + cursor_of(text))) == [60, 50, 40, 30, 20]


def test_values_are_shown_as_json_text_or_hex_and_escaped(
    console: ConsoleBrowser, ottla_broker: Broker, ottla_topic: str
) -> None:
    produce(ottla_broker, ottla_topic, b'{"a":[1]}', b"<script>alert(1)</script>", b"\x00\xff\xfe", None)
    text = console.text(f"/topics/{ottla_topic}/messages")
    assert "<pre>{\n  &#34;a&#34;: [\n    1\n  ]\n}</pre>" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text
    assert "00 ff fe" in text
    assert "tombstone" in text
    assert "7b 22 61 22" in console.text(f"/topics/{ottla_topic}/messages?format=hex")


def test_record_produced_in_the_console_has_key_value_and_headers(console: ConsoleBrowser, ottla_topic: str) -> None:
    console.post("/topics/create", {"name": ottla_topic, "replicas": "1"}, form="/topics/create")
    page = f"/topics/{ottla_topic}/messages"
    fields = {"partition": "-1", "key": "a key", "value": "a value", "headers": "trace: 42"}
    text = console.post(page, fields, form=page)
    assert "The record has offset 0 in partition 0." in text
    assert all(part in text for part in ("a key", "a value", "trace", "42"))
    assert "expected a line NAME: VALUE" in console.post(page, {"headers": "trace"}, form=page, status=400)


def test_streams_group_page_lists_the_partitions_of_its_tasks(
    console: ConsoleBrowser, ottla_broker: Broker, ottla_topic: str
) -> None:
    produce(ottla_broker, ottla_topic, b"v")
    with StreamsThread(ottla_broker.bootstrap_servers, ottla_topic, ottla_topic) as thread:
        text = console.text(f"/group?id={ottla_topic}")
    assert "streams group" in text
    assert thread.member_id in text
    assert f"{ottla_topic}-words-repartition-0" in text


def test_group_page_marks_partitions_with_an_open_transaction(
    console: ConsoleBrowser, ottla_broker: Broker, ottla_topic: str
) -> None:
    servers, path = ottla_broker.bootstrap_servers, f"/group?id={ottla_topic}"
    with (
        KafkaProducer(bootstrap_servers=servers, transactional_id=ottla_topic) as producer,
        KafkaAdminClient(bootstrap_servers=servers) as admin,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(ottla_topic, b"v").get(10)
        admin.alter_consumer_group_offsets(ottla_topic, {TopicPartition(ottla_topic, 0): 0})
        assert "open transaction" in console.text(path)
        producer.send(ottla_topic, b"v").get(10)
        admin.alter_consumer_group_offsets(ottla_topic, {TopicPartition(ottla_topic, 0): 1})
        assert "open transaction" not in console.text(path), "it has read uncommitted records"
        admin.alter_consumer_group_offsets(ottla_topic, {TopicPartition(ottla_topic, 0): 0})
        producer.commit_transaction()
    assert "open transaction" not in console.text(path)


def test_assigned_partition_without_a_committed_offset_is_listed(
    console: ConsoleBrowser, ottla_broker: Broker, ottla_topic: str
) -> None:
    produce(ottla_broker, ottla_topic, b"v")
    servers = ottla_broker.bootstrap_servers
    with KafkaConsumer(ottla_topic, bootstrap_servers=servers, group_id=ottla_topic, client_id="reader") as consumer:
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        text = console.text(f"/group?id={ottla_topic}")
    unknown = '<td class="n">\N{EN DASH}</td>'
    assert f'{unknown}<td class="n">1</td>{unknown}<td class="quiet">reader</td>' in text


def test_group_offsets_are_reset_as_previewed(console: ConsoleBrowser, ottla_broker: Broker, ottla_topic: str) -> None:
    produce(ottla_broker, ottla_topic, *(b"v" for _ in range(10)))
    group, tp = f"group/{ottla_topic} & co", TopicPartition(ottla_topic, 0)
    with KafkaAdminClient(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        admin.alter_consumer_group_offsets(group, {tp: 4})
        query = f"id={group.replace(' & ', '+%26+').replace('/', '%2F')}"
        assert '<td class="n">6</td>' in console.text(f"/group?{query}")  # the lag
        preview = console.text(f"/group/reset?{query}&to=shift&at=-2")
        assert "<b>2</b>" in preview
        assert admin.list_consumer_group_offsets(group)[tp].offset == 4
        match = re.search(r'name="offsets" value="([^"]+)"', preview)
        assert match is not None
        console.post("/group/reset", {"id": group, "offsets": match[1]}, form=f"/group/reset?{query}&to=latest")
        assert admin.list_consumer_group_offsets(group)[tp].offset == 2
    console.post("/group/delete", {"id": group, "confirm": group}, form=f"/group?{query}")
    assert "there is no group" in console.text(f"/group?{query}", 404)


def test_quota_is_set_and_removed(console: ConsoleBrowser) -> None:
    fields = {"user": "alice", "quota": "producer_byte_rate", "value": "1048576"}
    text = console.post("/quotas/set", fields, form="/quotas")
    assert "1,048,576" in text
    assert "<code>--broker-metrics</code>" in text, "how to see the usage"
    console.post("/quotas/set", {**fields, "operation": "remove"}, form="/quotas")
    assert "alice" not in console.text("/quotas")


def test_password_of_a_user_is_set_and_removed(console: ConsoleBrowser) -> None:
    fields = {"name": "bob", "mechanism": "SCRAM-SHA-512", "iterations": "4096", "password": "secret"}
    text = console.post("/users/set", fields, form="/users")
    assert "bob" in text
    assert "secret" not in text
    assert "bob has" not in console.post("/users/delete", fields, form="/users")


def test_broker_page_shows_configs_with_their_source(console: ConsoleBrowser) -> None:
    text = console.text("/brokers/0")
    changed, defaults = re.split(r"<summary>\d+ defaults</summary>", text)
    assert re.search(r"<code>log.dirs</code>.*?static broker", changed, re.DOTALL)
    assert "<code>log.retention.hours</code>" in defaults
    assert "static broker" not in defaults


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/topics?page=none", 400, "expected a number"),
        ("/topics?order=chaos", 400, "expected one of name"),
        ("/topics/no-such-topic", 404, "no-such-topic"),
        ("/topics/no-such-topic/tail/events", 404, "no-such-topic"),
        ("/brokers/77", 404, "The cluster has no broker 77"),
        ("/group?id=no-such-group", 404, "no-such-group"),
        ("/group", 400, "id: a value is required"),
        ("/transaction?id=no-such-id", 404, "no-such-id"),
        ("/nowhere", 404, "Page not found"),
    ],
)
def test_bad_request_returns_a_page_with_the_reason(
    console: ConsoleBrowser, path: str, status: int, reason: str
) -> None:
    text = console.text(path, status)
    assert reason in html.unescape(text)
    assert "Traceback" not in text


def test_topic_page_charts_message_rates(console: ConsoleBrowser, ottla_broker: Broker, ottla_topic: str) -> None:
    page = f"/topics/{ottla_topic}"
    deadline = time.monotonic() + 30
    text = ""
    while "<polyline" not in text and time.monotonic() < deadline:
        produce(ottla_broker, ottla_topic, b"a")
        text = console.text(page)
    assert re.search(r'aria-label="Messages per second: [\d.,]+/s at', text)


def test_unreachable_cluster_is_reported_within_two_seconds(unused_address: str) -> None:
    with open_console(unused_address) as browser:
        response = browser.client.get("/")
        assert response.elapsed.total_seconds() < 2
        assert response.status_code == 503
        assert "The cluster does not respond" in response.text
        assert "connection refused" in response.text
        assert "This page is loaded again every 3 seconds." in response.text
        response = browser.client.get("/topics/visits")
        assert response.elapsed.total_seconds() < 2
        assert "connection refused" in response.text
        assert "This page is loaded again every 3 seconds." in response.text


def test_start_offsets_of_a_share_group_are_reset(
    console: ConsoleBrowser, ottla_broker: Broker, ottla_topic: str
) -> None:
    produce(ottla_broker, ottla_topic, *(b"v" for _ in range(10)))
    group, tp, query = f"share-{ottla_topic}", TopicPartition(ottla_topic, 0), f"id=share-{ottla_topic}"
    with KafkaAdminClient(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        admin.alter_share_group_offsets(group, {tp: 4})
        console.post("/topics/create", {"name": f"{ottla_topic}-2", "replicas": "1"}, form="/topics/create")  # refresh
        text = console.text(f"/group?{query}")
        assert "share group" in text
        assert '<td class="n">4</td><td class="n">10</td><td class="n">6</td>' in text
        preview = console.text(f"/group/reset?{query}&to=offset&at=7")
        match = re.search(r'name="offsets" value="([^"]+)"', preview)
        assert match is not None
        console.post("/group/reset", {"id": group, "offsets": match[1]}, form=f"/group/reset?{query}&to=latest")
        assert admin.list_share_group_offsets(group) == {tp: 7}
    console.post("/group/delete", {"id": group, "confirm": group}, form=f"/group?{query}")
    console.text(f"/group?{query}", 404)

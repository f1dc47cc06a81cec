"""The console against Apache Kafka 4.3.1: every page, and the changes that its brokers allow."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.interop.eventually import eventually
from tests.interop.kafka_jars import kafka
from tests.unit.console.consoles import ConsoleBrowser, open_console

from ottla import KafkaAdminClient, KafkaProducer, TopicPartition
from ottla.net.ports import free_port

pytestmark = pytest.mark.interop

TOPIC = "visits"
SECONDS = 30.0


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka(tmp_path_factory.mktemp("kafka"), free_port(in_a_row=2)) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="module")
def console(servers: str) -> Iterator[ConsoleBrowser]:
    with open_console(servers) as browser:
        browser.wait()
        fields = {"name": TOPIC, "partitions": "2", "replicas": "1", "configs": "retention.ms=3600000"}
        assert "was created" in browser.post("/topics/create", fields, form="/topics/create")
        with KafkaProducer(bootstrap_servers=servers) as producer:
            for number in range(100):
                producer.send(TOPIC, b"record %d" % number, partition=number % 2)
        yield browser


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/", "have a leader and all their replicas"),
        ("/brokers", "controller"),
        ("/brokers/1", "static broker"),
        ("/topics", TOPIC),
        (f"/topics/{TOPIC}", "dynamic topic"),
        (f"/topics/{TOPIC}/messages", "record 99"),
        (f"/topics/{TOPIC}/messages?filter=record+17", "100 records searched"),
        (f"/topics/{TOPIC}/messages?order=offset&at=49&partition=1", "record 99"),
        (f"/topics/{TOPIC}/tail", "Live tail"),
        ("/groups", "Groups"),
        ("/transactions", "Transactions"),
        ("/users", "Users"),
        ("/quotas", "Quotas"),
        ("/log-dirs", "kafka"),
        ("/spark", "Spark"),
    ],
)
def test_page_shows_the_cluster(console: ConsoleBrowser, path: str, content: str) -> None:
    assert content in console.text(path)


def test_acls_page_reports_that_there_is_no_authorizer(console: ConsoleBrowser) -> None:
    assert "The brokers have no authorizer" in console.text("/acls")


def test_topic_is_altered_purged_and_deleted(console: ConsoleBrowser) -> None:
    page = "/topics/passing"
    console.post("/topics/create", {"name": "passing", "partitions": "1", "replicas": "1"}, form="/topics/create")
    fields = {"name": "retention.ms", "value": "5000", "operation": "set"}
    assert "retention.ms is &#39;5000&#39; now." in console.post(f"{page}/configs", fields, form=page)
    assert "has 3 partitions now" in console.post(f"{page}/partitions", {"partitions": "3"}, form=page)
    record = {"partition": "0", "key": "k", "value": "a value"}
    assert "has offset 0 in partition 0" in console.post(f"{page}/messages", record, form=f"{page}/messages")
    console.post(f"{page}/purge", {"confirm": "passing"}, form=page)
    assert "There are no records here." in console.text(f"{page}/messages")
    assert "was deleted" in console.post(f"{page}/delete", {"confirm": "passing"}, form=page)


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_offsets_of_a_group_are_reset_as_previewed(console: ConsoleBrowser, servers: str, kind: str) -> None:
    tp, group = TopicPartition(TOPIC, 0), f"{kind}-group"
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        if kind == "share":
            admin.alter_share_group_offsets(group, {tp: 4})
        else:
            admin.alter_consumer_group_offsets(group, {tp: 4})
        fields = {"user": "refresh", "quota": "producer_byte_rate", "value": "1048576"}
        console.post("/quotas/set", fields, form="/quotas")  # the lists are loaded again
        # a share coordinator takes longer to start than the timeout of a page
        eventually(lambda: console.client.get(f"/group?id={group}").status_code == 200, SECONDS)
        assert '<td class="n">46</td>' in console.text(f"/group?id={group}")
        preview = console.text(f"/group/reset?id={group}&to=shift&at=3")
        match = re.search(r'name="offsets" value="([^"]+)"', preview)
        assert match is not None
        console.post("/group/reset", {"id": group, "offsets": match[1]}, form=f"/group/reset?id={group}&to=latest")
        if kind == "share":
            assert admin.list_share_group_offsets(group)[tp] == 7
        else:
            assert admin.list_consumer_group_offsets(group)[tp].offset == 7
        console.post("/group/delete", {"id": group, "confirm": group}, form=f"/group?id={group}")
        console.text(f"/group?id={group}", 404)


def test_password_and_quota_of_a_user_are_set_and_removed(console: ConsoleBrowser) -> None:
    fields = {"name": "bob", "mechanism": "SCRAM-SHA-512", "iterations": "4096", "password": "secret"}
    assert "bob" in console.post("/users/set", fields, form="/users")
    console.post("/users/delete", fields, form="/users")
    quota = {"user": "alice", "quota": "producer_byte_rate", "value": "1048576"}
    assert "1,048,576" in console.post("/quotas/set", quota, form="/quotas")
    console.post("/quotas/set", {**quota, "operation": "remove"}, form="/quotas")
    assert "alice" not in console.text("/quotas")

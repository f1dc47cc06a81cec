"""The site builds without warnings, such as broken links, unknown languages and invalid docstrings. Its search returns
the right guide for the most frequent questions about Kafka in Python.
"""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.site.conftest import ROOT

QUESTIONS = {
    "read messages from the beginning": "read-from-the-beginning",
    "consume last n messages": "read-the-last-records",
    "consume from timestamp": "read-from-a-time",
    "commit offset manually": "commit-after-processing",
    "max.poll.interval.ms exceeded": "process-records-slowly",
    "message too large": "send-large-records",
    "json serializer": "send-json",
    "create topic python": "create-a-topic",
    "delete topic": "delete-a-topic",
    "delete all messages in a topic": "empty-a-topic",
    "number of messages in a topic": "count-the-records-of-a-topic",
    "consumer lag": "measure-the-lag",
    "reset offsets of consumer group": "reset-the-offsets-of-a-group",
    "multiple consumers same group": "share-the-work",
    "NoBrokersAvailable": "find-out-why-a-client-cannot-connect",
    "docker connect localhost advertised.listeners": "listen-on-other-addresses",
    "asyncio producer": "use-asyncio",
    "fastapi": "produce-from-a-web-application",
    "exactly once": "copy-exactly-once",
    "custom partitioner": "choose-the-partition",
    "delivery callback error": "handle-send-errors",
    "messages lost on exit flush": "flush-before-exit",
    "poison pill skip bad message": "skip-unreadable-records",
    "dead letter queue": "use-a-dead-letter-topic",
    "multithreading consumer": "process-records-in-threads",
    "graceful shutdown consumer": "stop-a-consumer",
    "unit test kafka pytest": "test-with-pytest",
    "pyspark read kafka topic": "read-a-topic-in-spark",
    "ssl certificate": "encrypt-connections",
    "sasl scram username password": "require-a-password",
    "retention time of messages": "change-how-long-records-stay",
    "pandas dataframe": "read-into-a-data-frame",
    "kafka consumer read from beginning": "read-from-the-beginning",
    "how to send json to kafka in python": "send-json",
    "kafka exactly once python": "copy-exactly-once",
    "kafka dead letter queue": "use-a-dead-letter-topic",
    "kafka sasl scram python": "require-a-password",
    "fastapi kafka producer": "produce-from-a-web-application",
    "kafka consumer lag python": "measure-the-lag",
    "run kafka without docker": "start-a-cluster-on-one-machine",
    "port in use": "choose-another-port",
    "address already in use": "choose-another-port",
    "change port": "choose-another-port",
    "stop broker": "stop-a-broker",
    "uninstall": "stop-a-broker",
    "how many partitions should a topic have": "add-partitions",
    "kafka python consumer not receiving messages": "read-from-the-beginning",
    "kafka-python poll returns empty": "read-from-the-beginning",
    "difference between auto.offset.reset earliest and latest": "read-from-the-beginning",
    "how to seek to a specific offset": "read-from-an-offset",
    "consume messages from specific partition": "read-from-an-offset",
    "how to get number of partitions of a topic": "list-and-describe-topics",
    "how to list all topics python": "list-and-describe-topics",
    "consumer group rebalancing too often": "process-records-slowly",
    "CommitFailedError cannot be completed since the group has already rebalanced": "process-records-slowly",
    "KafkaTimeoutError failed to update metadata after 60 secs": "find-out-why-a-client-cannot-connect",
    "check if kafka broker is available from python": "find-out-why-a-client-cannot-connect",
    "consumer timeout stop iteration when no more messages": "stop-at-the-end",
    "consume one message at a time max_poll_records": "process-records-slowly",
    "connect to kafka with ssl certificates python": "encrypt-connections",
    "producer send does not deliver message": "flush-before-exit",
    "increase number of partitions of existing topic": "add-partitions",
    "UnicodeDecodeError when decoding message value": "skip-unreadable-records",
    "kafka monitoring grafana": "watch-a-broker-with-prometheus",
    "how to mock kafka in unit tests": "test-with-pytest",
}
"""Search terms from questions and issues about Kafka's Python clients → guide in docs/how-to."""
TOP_RESULTS = 3
SEARCHED = "/found|did not match/.test(document.querySelector('.search-summary')?.textContent)"
PATHS = "links => links.map(link => new URL(link.href).pathname)"


def test_clients_and_their_methods_have_entries(site: Path) -> None:
    page = (site / "api/consumer/index.html").read_text()
    for name in ("poll", "seek", "commit", "subscribe", "offsets_for_times"):
        assert f'id="ottla.KafkaConsumer.{name}"' in page


def test_each_page_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        if page.stem != "index":
            assert f'href="{page.stem}/"' in home, page.stem


def test_each_guide_is_linked_from_the_list_of_guides(site: Path) -> None:
    guides = (site / "how-to/index.html").read_text()
    for page in (ROOT / "docs/how-to").glob("*.md"):
        if page.stem != "index":
            assert f'href="{page.stem}/"' in guides, page.stem


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_search_returns_the_guide_for_each_question(address: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or pytest.skip("needs Chromium")
    missed = {}
    with (
        playwright.sync_playwright() as p,
        p.chromium.launch(executable_path=chromium, args=["--no-sandbox"]) as browser,
    ):
        page = browser.new_page()
        for question, guide in QUESTIONS.items():
            page.goto(f"{address}/search/?q={quote(question)}")
            page.wait_for_function(SEARCHED)
            links = page.eval_on_selector_all("#search-results li a", PATHS)
            pages = [link.strip("/") for link in dict.fromkeys(links)][:TOP_RESULTS]
            if f"how-to/{guide}" not in pages:
                missed[question] = pages
    assert not missed
    assert len(QUESTIONS) >= 30

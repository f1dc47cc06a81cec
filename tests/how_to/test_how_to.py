"""Every page of docs/how-to runs, against one broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.how_to.pages import PAGES, run_page
from tests.unit.docs.code_blocks import code_blocks, run_blocks

import ottla
from ottla.config.broker.broker_config import BrokerConfig

OF_PYTEST = ("test-with-pytest", "test-failures")
"""Pages whose code consists of tests, which are collected here."""
OF_SPARK = {page.stem for page in PAGES.glob("*spark*.md")}
"""Run by tests/spark/test_how_to.py, in one session."""
OF_POSTGRESQL = {page.stem for page in PAGES.glob("*postgresql*.md")}
"""Run by tests/interop/tables/test_capture.py, with a database."""
NAMES = sorted({page.stem for page in PAGES.glob("*.md")} - {*OF_PYTEST} - OF_SPARK - OF_POSTGRESQL - {"index"})

for name in OF_PYTEST:
    run_blocks(PAGES / f"{name}.md", globals())


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.mark.parametrize("name", NAMES)
def test_how_to_page_runs(name: str, broker: ottla.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(name, broker.bootstrap_servers, tmp_path)


def test_blocks_have_known_languages() -> None:
    languages = {block.language for page in PAGES.glob("*.md") for block in code_blocks(page)}
    assert languages == {"python", "sh", "text", "properties"}


def test_how_to_pages_have_code() -> None:
    assert {page.stem for page in PAGES.glob("*.md") if not code_blocks(page)} == {"index"}


def test_properties_blocks_are_valid_broker_configs(caplog: pytest.LogCaptureFixture) -> None:
    for page in PAGES.glob("*.md"):
        for block in code_blocks(page):
            if block.language == "properties":
                BrokerConfig.from_kafka(dict(line.split("=", 1) for line in block.source.splitlines()))
    assert not caplog.records


def test_spark_pages_find_the_java_that_the_extra_brings() -> None:
    """`SparkSession.builder` needs a Java on the PATH."""
    texts = {page: (PAGES / f"{page}.md").read_text() for page in OF_SPARK}
    assert [page for page, text in texts.items() if "local_session" not in text or ".builder" in text] == []


def test_how_to_pages_show_all_code_that_readers_need() -> None:
    assert [page.stem for page in PAGES.glob("*.md") if "<!-- setup" in page.read_text()] == []


def test_index_links_to_every_page_once() -> None:
    links = re.findall(r"\]\(([a-z0-9-]+)\.md\)", (PAGES / "index.md").read_text())
    assert sorted(links) == sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "index")
    assert len(links) >= 60

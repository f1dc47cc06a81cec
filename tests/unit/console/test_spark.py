"""The console's pages of Spark queries and pipelines, from progress files."""

from __future__ import annotations

import datetime as dt
import html
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.console.consoles import ConsoleBrowser, open_console

from ottla.broker.embedded import Broker
from ottla.errors import ConfigurationError
from ottla.spark.monitoring.history import Histories
from ottla.spark.monitoring.progress import micro_batch
from ottla.spark.monitoring.progress_file import (
    HEARTBEAT_SECONDS,
    MAX_FILES,
    QUERIES,
    SUFFIX,
    ProgressFile,
    progress_files,
)
from ottla_console.cluster.spark_progress import KILLED, SILENT_MS, read_progress
from ottla_pipelines.declarative.events import event_of
from ottla_pipelines.declarative.run_progress import recorded

ID = "78ccfd42-ef1c-40fc-8fb0-b9052802cdeb"


def histories(error: str | None = None, *, ended: bool = False) -> Histories:
    result = Histories()
    result.started(ID, "pages")
    for number, latest in enumerate((350, 320)):
        source = {"endOffset": {"visits": {"0": 300}}, "latestOffset": {"visits": {"0": latest}}}
        at = f"2026-11-21T23:47:{49 + number}.322Z"
        progress = {"id": ID, "name": "pages", "timestamp": at, "batchId": number, "numInputRows": 300}
        progress |= {"processedRowsPerSecond": 150.0, "durationMs": {"addBatch": 1500, "triggerExecution": 2000}}
        result.progressed(micro_batch({**progress, "sources": [source]}))
    if error or ended:
        result.ended(ID, error)
    return result


def content(queries: Histories) -> dict[str, Any]:
    with queries.reading() as rows:
        return {"queries": [query.to_json(60) for query in rows]}


def write_progress(directory: Path, queries: Histories, name: str = "app") -> ProgressFile:
    return ProgressFile(directory, QUERIES, name, lambda: content(queries)).start()


@pytest.fixture
def console_of(ottla_broker: Broker, tmp_path: Path) -> Any:
    return lambda: open_console(ottla_broker.bootstrap_servers, progress_dirs=(tmp_path,))


def links(text: str, path: str) -> list[str]:
    return [html.unescape(link) for link in re.findall(rf'href="({path}\?[^"]+)"', text)]


def test_query_page_has_charts_of_its_micro_batches(console_of: Any, tmp_path: Path) -> None:
    file = write_progress(tmp_path, histories(), "visits <app>")
    with console_of() as browser:
        text = browser.text("/spark")
        assert "visits &lt;app&gt;" in text
        [link] = links(text, "/spark/query")
        text = browser.text(link)
        assert re.search(r'aria-label="Offsets behind: 20 offsets at', text)
        assert "running" in text
        assert "addBatch" in text
        file.close()
        assert '<span class="badge">ended</span>' in browser.text(link)


def test_failed_query_shows_its_error(console_of: Any, tmp_path: Path) -> None:
    write_progress(tmp_path, histories("boom <script>")).close()
    with console_of() as browser:
        [link] = links(browser.text("/spark"), "/spark/query")
        text = browser.text(link)
        assert "boom &lt;script&gt;" in text
        assert '<span class="badge bad">failed</span>' in text


def test_query_of_a_silent_process_is_shown_as_killed(tmp_path: Path) -> None:
    file = write_progress(tmp_path, histories())
    now = int(time.time() * 1000)
    assert read_progress([tmp_path], now).queries[0].status == "running"
    assert read_progress([tmp_path], now + SILENT_MS + 60_000).queries[0].status == KILLED
    file.close()
    assert read_progress([tmp_path], now + SILENT_MS + 60_000).queries[0].status == "ended"


def test_pipeline_shows_the_states_of_its_flows(console_of: Any, tmp_path: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    with pytest.raises(RuntimeError, match="full"), recorded(tmp_path, Path("/projects/visits")) as progress:
        progress.add(event_of(now, "Flow spark_catalog.default.pages is RUNNING."))
        progress.add(event_of(now, "Flow spark_catalog.default.hosts has COMPLETED."))
        raise RuntimeError("the disk is full")
    with console_of() as browser:
        text = browser.text("/spark")
        assert "1 of 2" in text
        [link] = links(text, "/spark/pipeline")
        text = browser.text(link)
        assert "the disk is full" in text
        assert all(name in text for name in ("pages", "hosts", "running", "completed"))


def test_spark_page_names_the_progress_dir_option(console: ConsoleBrowser) -> None:
    assert "--progress-dir" in console.text("/spark")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"kind": "queries"}', '{"kind": "queries", "queries": [1]}', '{"kind": "pipeline"}']
)
def test_damaged_progress_file_is_named_and_skipped(tmp_path: Path, text: str) -> None:
    (tmp_path / f"queries-x{SUFFIX}").write_text(text)
    write_progress(tmp_path, histories(ended=True)).close()
    progress = read_progress([tmp_path], 0)
    assert progress.unreadable == (f"queries-x{SUFFIX}",)
    assert len(progress.queries) == 1


@pytest.mark.parametrize(
    ("path", "status"),
    [("/spark/query?file=a&id=b", 404), ("/spark/query", 400), ("/spark/pipeline?file=../../etc/passwd", 404)],
)
def test_unknown_query_or_pipeline_is_not_found(console_of: Any, path: str, status: int) -> None:
    with console_of() as browser:
        browser.text(path, status)


def test_progress_file_is_rewritten_only_on_changes_or_heartbeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = histories()
    file = ProgressFile(tmp_path, QUERIES, "app", lambda: content(queries))
    clock = 0.0
    monkeypatch.setattr("ottla.spark.monitoring.progress_file.time.monotonic", lambda: clock)
    file._write(is_closed=False)
    first = file.path.stat().st_ino
    file._write(is_closed=False)
    assert file.path.stat().st_ino == first
    clock = HEARTBEAT_SECONDS
    file._write(is_closed=False)
    second = file.path.stat().st_ino
    assert second != first
    queries.ended(ID, None)
    file._write(is_closed=False)
    assert json.loads(file.path.read_text())["queries"][0]["status"] == "ended"


def test_progress_directory_has_a_bounded_number_of_files(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 5):
        (tmp_path / f"queries-{number}{SUFFIX}").write_text("{}")
    (tmp_path / "notes.txt").write_text("mine")
    write_progress(tmp_path, histories()).close()
    assert len(progress_files(tmp_path)) == MAX_FILES
    assert (tmp_path / "notes.txt").exists()


def test_unwritable_progress_directory_is_reported_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        write_progress(tmp_path / "file", histories())

"""Monitoring of queries from Spark's progress reports, without Spark: histories, metrics, terminal, reports."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from ottla.metrics.metrics import Metrics
from ottla.metrics.prometheus import PrometheusReporter
from ottla.spark.monitoring.history import MOST_BATCHES, MOST_QUERIES, Histories, QueryHistory
from ottla.spark.monitoring.metrics import NAMESPACE, QUERY_METRICS, QueryMetrics
from ottla.spark.monitoring.progress import State, micro_batch, total
from ottla.spark.monitoring.report import MOST_BARS, finding, report_of, write
from ottla.spark.monitoring.terminal import Terminal, cells, line, task_count

ID = "78ccfd42-ef1c-40fc-8fb0-b9052802cdeb"


def progress(batch_id: int = 0, rows: int = 300, **more: Any) -> dict[str, Any]:
    """Return a progress report in the form of Spark 4.3."""
    source = {
        "description": "KafkaV2[Subscribe[visits]]",
        "startOffset": None,
        "endOffset": {"visits": {"0": 300, "1": 10}},
        "latestOffset": {"visits": {"0": 350, "1": 10, "2": 5}},
        "numInputRows": rows,
    }
    return {
        "id": ID,
        "runId": "c78f9e52-7a9e-442a-a082-d6fb800f8f1a",
        "name": "pages",
        "timestamp": "2026-11-21T23:47:49.322Z",
        "batchId": batch_id,
        "batchDuration": 2000,
        "numInputRows": rows,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": rows / 2,
        "durationMs": {"addBatch": 1500, "triggerExecution": 2000, "walCommit": 100},
        "stateOperators": [{"numRowsTotal": 7, "memoryUsedBytes": 4096, "customMetrics": {"rocksdbSstFileSize": 99}}],
        "sources": [source],
        "sink": {"description": "console", "numOutputRows": -1},
        **more,
    }


def history(*documents: dict[str, Any]) -> QueryHistory:
    query = QueryHistory(ID, "pages")
    for document in documents:
        query.add(micro_batch(document))
    return query


def test_progress_has_rows_rates_phases_state_and_lag() -> None:
    batch = micro_batch(progress())
    assert (batch.name, batch.rows, batch.rows_per_second, batch.milliseconds) == ("pages", 300, 150.0, 2000)
    assert batch.durations_ms == {"addBatch": 1500, "walCommit": 100}
    assert batch.state == State(7, 4096, 99)
    assert batch.behind == {"visits": {"0": 50, "1": 0, "2": 5}}
    assert total(batch.behind) == 55


def test_offsets_in_progress_may_be_json_text() -> None:
    source = {"endOffset": '{"visits": {"0": 1}}', "latestOffset": '{"visits": {"0": 4}}'}
    assert micro_batch(progress(sources=[source])).behind == {"visits": {"0": 3}}


def test_topic_with_two_sources_has_the_lag_of_the_slower_one() -> None:
    slow, fast = ({"endOffset": {"visits": {"0": end}}, "latestOffset": {"visits": {"0": 9}}} for end in (4, 9))
    for sources in ([slow, fast], [fast, slow]):
        assert micro_batch(progress(sources=sources)).behind == {"visits": {"0": 5}}


@pytest.mark.parametrize("latest", [None, "null", "12", 12, {"files": 3}, "no json"])
def test_sources_with_other_offsets_have_no_lag(latest: object) -> None:
    sources = [{"endOffset": {"visits": {"0": 1}}, "latestOffset": latest}, {}]
    assert micro_batch(progress(sources=sources)).behind == {}


@pytest.mark.parametrize("rate", ["NaN", "Infinity", None, float("nan")])
def test_rate_that_is_not_a_number_is_zero(rate: object) -> None:
    assert micro_batch(progress(inputRowsPerSecond=rate)).input_rows_per_second == 0.0


def test_query_without_name_has_a_short_id_and_no_state() -> None:
    batch = micro_batch(progress(name=None, stateOperators=[]))
    assert (batch.name, batch.state) == ("78ccfd42", None)


def test_totals_sum_micro_batches_and_count_repeated_ones_once() -> None:
    query = history(progress(0), progress(1, rows=0), progress(1, rows=100), progress(1, rows=100))
    assert (query.batches, query.rows, query.milliseconds) == (2, 400, 4000)
    assert query.durations_ms["addBatch"] == 3000
    assert query.rows_per_second == 100.0


def test_query_histories_are_bounded() -> None:
    query = history(*(progress(i) for i in range(MOST_BATCHES + 5)))
    assert len(query.recent) == MOST_BATCHES
    assert query.batches == MOST_BATCHES + 5
    histories = Histories()
    for i in range(MOST_QUERIES + 5):
        histories.started(str(i), str(i))
        if i:
            histories.ended(str(i), None)
    with histories.reading() as queries:
        assert len(queries) == MOST_QUERIES
        assert queries[0].query_id == "0"  # it still runs


def test_restarted_query_continues_its_history() -> None:
    histories = Histories()
    histories.started(ID, "pages")
    histories.progressed(micro_batch(progress(0)))
    histories.ended(ID, "gone\nat Main.java")
    with histories.reading() as [query]:
        assert (query.status, query.error) == ("failed", "gone\nat Main.java")
        assert finding(query).endswith("It failed: gone.")
    histories.started(ID, "pages")
    histories.progressed(micro_batch(progress(1)))
    with histories.reading() as [query]:
        assert (query.status, query.error, query.rows) == ("running", None, 600)


def test_wait_for_ends_does_not_wait_for_active_queries() -> None:
    histories = Histories()
    histories.started(ID, "pages")
    histories.wait_for_ends(frozenset([ID]), 60)  # it is active: nothing to wait for
    histories.ended(ID, None)
    histories.wait_for_ends(frozenset(), 60)


def test_query_metrics_have_query_topic_and_phase_labels() -> None:
    histories, reporter = Histories(), PrometheusReporter()
    metrics = QueryMetrics(Metrics(namespace=NAMESPACE, reporters=[reporter]), histories)
    histories.progressed(micro_batch(progress()))
    metrics.update()
    metrics.update()
    text = reporter.text()
    for metric in QUERY_METRICS:
        name = metric.name.replace("-", "_")
        assert f'ottla_spark_streaming_query_metrics_{name}{{query="pages"}} ' in text
    assert 'max_offsets_behind_latest{query="pages"} 50.0' in text
    assert 'min_offsets_behind_latest{query="pages"} 0.0' in text
    assert 'offsets_behind_latest{query="pages",topic="visits"} 55.0' in text
    assert 'duration_ms{query="pages",phase="addBatch"} 1500.0' in text


def test_line_and_table_row_show_the_same_progress() -> None:
    query = history(progress(3))
    assert line(query) == "pages: batch 3, 300 rows, 150 rows/s, took 2.0 s, 55 behind, 7 rows of state"
    assert cells(query) == ["pages", "3", "300", "150", "55", "7", "2.0 s"]
    assert line(QueryHistory(ID, "new")) == "new: batch -, 0 rows"
    assert task_count((3, 200)) == "tasks 3 of 200"


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO(), Tty()])
def test_terminal_prints_the_last_state_on_close(stream: io.StringIO) -> None:
    pytest.importorskip("rich")
    histories = Histories()
    terminal = Terminal(histories, lambda: None, stream)
    terminal.start()
    histories.progressed(micro_batch(progress()))
    terminal.close()
    assert "pages" in stream.getvalue()
    assert "300" in stream.getvalue()


def test_query_name_is_not_interpreted_as_markup() -> None:
    console = pytest.importorskip("rich.console")
    histories = Histories()
    histories.started(ID, "[red]a[/b]")
    out = io.StringIO()
    console.Console(file=out, width=100).print(Terminal(histories, lambda: None)._table())
    assert "[red]a[/b]" in out.getvalue()


def test_failed_query_without_message_is_reported() -> None:
    query = history(progress())
    query.status, query.error = "failed", "\n"
    assert "It failed: ." in finding(query)


def test_report_has_findings_tables_and_bounded_charts() -> None:
    query = history(*(progress(i) for i in range(500)))
    report = report_of([query], "Night job")
    assert report.findings == [
        "pages: 150,000 rows in 500 micro-batches of 1,000.0 s in all, 150 rows/s; 55 offsets behind at the end."
    ]
    assert [table.title for table in report.tables] == ["Queries", "Offsets behind", "Where the time went"]
    assert len(report.bars) == 4
    assert all(len(bars.values) <= MOST_BARS for bars in report.bars)


def test_report_is_written_as_html_or_png(tmp_path: Path) -> None:
    assert "Night job" in write([history(progress())], tmp_path / "r.html", "Night job").read_text()
    assert write([], tmp_path / "r.png", "Night job").read_bytes().startswith(b"\x89PNG")


def test_report_without_queries_is_a_page(tmp_path: Path) -> None:
    assert "No query has run." in write([], tmp_path / "r.html", "Nothing").read_text()


def test_json_history_uses_sparks_field_names() -> None:
    document = json.loads(json.dumps(history(progress()).to_json()))
    assert document["numInputRows"] == 300
    assert document["offsetsBehindLatest"] == {"visits": 55}
    assert document["recent"][0]["state"]["disk_bytes"] == 99

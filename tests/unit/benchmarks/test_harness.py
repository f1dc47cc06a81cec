"""The benchmark harness: latencies, batches, saved results and the page of results."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import pytest
from benchmarks import __main__ as entry
from benchmarks import broker, report, results
from benchmarks.raw import Connection, batch_of, fixed_rate
from benchmarks.results import Figure

from ottla.protocol.message import encode
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from ottla.records import compression

STALL_SECONDS = 0.2


class StallingBroker:
    """Acknowledges requests, and stalls once."""

    def __init__(self, stall_at: int) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._stall_at = stall_at
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        partition = PartitionProduceResponse(index=0, error_code=0)
        response = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])
        body = bytes(encode(response, 7))
        frame = (len(body) + 4).to_bytes(4, "big") + b"\0\0\0\1" + body
        sock, _ = self._server.accept()
        with sock, sock.makefile("rb") as stream:
            count = 0
            while head := stream.read(4):
                stream.read(int.from_bytes(head, "big"))
                count += 1
                if count == self._stall_at:
                    time.sleep(STALL_SECONDS)
                sock.sendall(frame)


def test_latency_at_a_fixed_rate_counts_every_request_that_a_stall_delays() -> None:
    """A client that waited for each response before its next request would measure one slow request.

    That is coordinated omission.
    """
    server = StallingBroker(stall_at=20)
    latencies = fixed_rate([Connection(server.port)], "t", batch_of(100, 300), per_second=200, seconds=0.5)
    assert len(latencies) == 100
    delayed = [milliseconds for milliseconds in latencies if milliseconds > STALL_SECONDS * 1000 / 4]
    assert len(delayed) >= 25
    assert max(latencies) >= STALL_SECONDS * 1000


def test_percentiles_are_taken_from_the_sorted_values() -> None:
    assert broker.percentiles([float(n) for n in range(10_000, 0, -1)]) == [5001, 9901, 9991, 10_000]
    assert broker.percentiles([1.0]) == [1.0] * 4


def test_compressed_batch_counts_its_bytes_before_compression() -> None:
    plain, compressed = batch_of(100, 65_536), batch_of(100, 65_536, compression.ZSTD)
    assert compressed.records == plain.records
    assert compressed.plain_bytes == plain.plain_bytes == len(plain.data)
    assert len(plain.data) / 2 < len(compressed.data) < len(plain.data)


def test_broker_rows_cover_the_workloads_of_openmessaging() -> None:
    assert len(broker.ROWS) == 3 * 2 * 2 * 3
    assert len({row.label for row in broker.ROWS}) == len(broker.ROWS)
    assert set(broker.QUICK_ROWS) <= set(broker.ROWS)


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    monkeypatch.setattr(results, "HISTORY", tmp_path / "history.jsonl")
    return tmp_path


def test_saving_a_part_replaces_only_the_earlier_results_of_that_part(saved: Path) -> None:
    old, other = (Figure("rate", "1/s", True, {"ottla": [n, 2.0], "kafka": [1.0, 4.0]}) for n in (1.0, 3.0))
    results.save("suite", {"a": [old], "b": [old]}, [("ottla", "kafka")])
    results.save("suite", {"a": [other]}, [("ottla", "kafka")])
    parts = results.load("suite")
    assert parts["a"].figures == [other]
    assert parts["b"].figures == [old]
    assert parts["a"].stamp["versions"]["python"]
    rows = [json.loads(line) for line in (saved / "history.jsonl").read_text().splitlines()]
    assert [(row["part"], row["ratios"]) for row in rows] == [
        ("a", {"rate": 0.75}),
        ("b", {"rate": 0.75}),
        ("a", {"rate": 1.75}),
    ]


def test_benchmark_page_has_the_tables_of_the_saved_results() -> None:
    page = report.PAGE.read_text()
    assert report.rendered(page) == page, "run: python -m benchmarks report"


def test_benchmark_page_refers_to_existing_charts() -> None:
    for line in report.PAGE.read_text().splitlines():
        if line.startswith("!["):
            assert (report.PAGE.parent / line.partition("](")[2].rstrip(")")).exists(), line


@pytest.mark.parametrize("suite", entry.SUITES)
def test_suite_help_prints_its_usage(suite: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        entry.main([suite, "--help"])
    assert exit_.value.code == 0
    assert f"python -m benchmarks {suite}" in capsys.readouterr().out

"""The report of producer-perf-test for fixed latencies, and the payloads that it sends."""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path

import pytest

from ottla.cli.perf import payloads
from ottla.cli.perf.java_format import decimal, metric_lines, ratio
from ottla.cli.perf.producer_report import Report
from ottla.errors import ConfigurationError
from ottla.metrics.metrics import Metrics

INTERVAL = 5000


def test_last_line_is_the_summary_of_kafka_producer_perf_test() -> None:
    report = Report(1000, INTERVAL, print)
    report.add(dict.fromkeys(range(1, 1001), 1), 1024 * 1024, 2000)
    report.add({4: 1000}, 1024 * 1024, 3000)
    assert report.line(3000) == (
        "2000 records sent, 1000.000000 records/sec (1.00 MB/sec), 252.25 ms avg latency, 1000.00 ms max latency, "
        "4 ms 50th, 901 ms 95th, 981 ms 99th, 999 ms 99.9th."
    )


def test_summary_without_records_has_no_average() -> None:
    assert Report(1000, INTERVAL, print).line(2000) == (
        "0 records sent, 0.000000 records/sec (0.00 MB/sec), NaN ms avg latency, 0.00 ms max latency, "
        "0 ms 50th, 0 ms 95th, 0 ms 99th, 0 ms 99.9th."
    )


def test_each_interval_is_reported_separately() -> None:
    lines: list[str] = []
    report = Report(0, INTERVAL, lines.append)
    report.add({10: 50}, 50, 4999)
    assert lines == []
    report.add({20: 50}, 50, 5000)
    report.add({30: 10}, 10, 10_000)
    assert lines == [
        "100 records sent, 20.0 records/sec (0.00 MB/sec), 15.0 ms avg latency, 20.0 ms max latency.",
        "10 records sent, 2.0 records/sec (0.00 MB/sec), 30.0 ms avg latency, 30.0 ms max latency.",
    ]


def test_only_the_steady_state_is_reported_after_the_warmup() -> None:
    lines: list[str] = []
    total, steady = Report(0, INTERVAL, lines.append), Report(0, INTERVAL, lines.append, steady=True)
    total.mute()
    for now in (6000, 12_000):
        for report in (total, steady):
            report.add({1: 6}, 6, now)
    assert [line.partition(" sent")[0] for line in lines] == ["In steady state.", "6 records", "6 records"]
    assert steady.line(12_000).startswith("12 steady state records sent, 1.000000 records/sec")


def test_json_report_without_records_has_null_rates() -> None:
    output = Report(1000, INTERVAL, print).as_json(1000)
    assert (output["records"], output["records_per_second"], output["average_latency_ms"]) == (0, None, None)


def test_decimals_are_formatted_as_java() -> None:
    assert [decimal(v, 2) for v in (math.nan, math.inf, -math.inf, 1.0)] == ["NaN", "Infinity", "-Infinity", "1.00"]
    assert [ratio(1, 2), ratio(1, 0)] == [0.5, math.inf]
    assert math.isnan(ratio(0, 0))


def test_metrics_are_printed_as_a_table() -> None:
    metrics = Metrics(tags={"client-id": "me"})
    metrics.add_metric(metrics.name("rate", "group"), lambda: 2.5)
    metrics.add_metric(metrics.name("version", "app-info"), lambda: "4.3")
    assert metric_lines(metrics.metrics) == [
        "",
        "Metric Name                                Value",
        "app-info:version:{client-id=me}          : 4.3",
        "group:rate:{client-id=me}                : 2.500",
        "kafka-metrics-count:count:{client-id=me} : 3",
    ]


def test_random_letter_payloads_have_the_requested_size() -> None:
    sample = list(islice(payloads.letters(7), 20_000))
    assert {len(payload) for payload in sample} == {7}
    assert len(set(sample)) > 19_000
    assert set(b"".join(sample)) == set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert len(next(payloads.letters(payloads.BLOCK_BYTES + 1))) == payloads.BLOCK_BYTES + 1


def test_monotonic_payloads_start_at_zero() -> None:
    assert list(islice(payloads.numbers(), 3)) == [b"0", b"1", b"2"]


def test_random_payloads_are_chosen_from_the_file() -> None:
    assert set(islice(payloads.choices([b"a", b"b"]), 1000)) == {b"a", b"b"}


@pytest.mark.parametrize(
    ("text", "delimiter", "result"),
    [
        ("a\nb\n", "\\n", ["a", "b"]),
        ("a\n\nb", "\\n", ["a", "", "b"]),
        ("\na\n\n", "\\n", ["a", ""]),
        ("a1b22c", "[0-9]+", ["a", "b", "c"]),
        ("äö", ",", ["äö"]),
        ("a,b;c", "(,|;)", ["a", "b", "c"]),
        ("a,b;c", "(,)|;", ["a", "b", "c"]),
    ],
)
def test_payload_file_is_split_as_by_java(text: str, delimiter: str, result: list[str], tmp_path: Path) -> None:
    file = tmp_path / "payloads.txt"
    file.write_text(text)
    assert payloads.read(str(file), delimiter) == [part.encode() for part in result]


@pytest.mark.parametrize(
    ("text", "delimiter", "words"),
    [
        ("", "\\n", "is empty"),
        ("a", "(", "not a regular expression"),
        (b"\xff", "x", "not UTF-8"),
        (None, "x", "cannot be read"),
    ],
)
def test_invalid_payload_file_is_rejected(text: str | bytes | None, delimiter: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "payloads.txt"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigurationError, match=words):
        payloads.read(str(file), delimiter)

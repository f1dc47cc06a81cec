"""The report of consumer-perf-test for fixed times."""

from __future__ import annotations

from datetime import UTC
from types import SimpleNamespace

import pytest

from ottla.cli.perf.consumer_report import MIB, Progress, RebalanceTimer, Span
from ottla.cli.perf.java_dates import DateFormat
from ottla.errors import ConfigurationError
from ottla.model import TopicPartition

ONE, TWO = TopicPartition("t", 1), TopicPartition("t", 2)
PLAIN = DateFormat("SSS", "--date-format")


def test_run_is_reported_with_and_without_the_rebalance_time() -> None:
    run = Span(Progress(1000), Progress(3001, 4002, 4 * MIB, 1001))
    assert run.line(PLAIN) == "000, 001, 4.0000, 1.9990, 4002, 2000.0000, 1001, 1000, 4.0000, 4002.0000"


def test_run_of_zero_duration_has_no_rates() -> None:
    run = Span(Progress(1000), Progress(1000, 1, MIB))
    assert run.line(PLAIN) == "000, 000, 1.0000, Infinity, 1, Infinity, 0, 0, Infinity, Infinity"
    assert run.as_json()["records_per_second"] is None


def test_interval_line_includes_the_totals_read_before() -> None:
    interval = Span(Progress(1000, 100, MIB, 50), Progress(2000, 300, 3 * MIB, 550))
    assert interval.detail(PLAIN) == "000, 0, 3.0000, 2.0000, 300, 200.0000, 500, 500, 4.0000, 400.0000"


def test_interval_of_rebalance_only_has_no_fetch_rates() -> None:
    assert Span(Progress(0), Progress(1000, 10, 0, 1000)).detail(PLAIN).endswith(", 1000, 0, 0.0000, 0.0000")


def test_rebalance_timer_runs_while_no_partition_is_assigned() -> None:
    clock = SimpleNamespace(now=0)
    timer = RebalanceTimer(lambda: clock.now)
    for clock.now, change, partition, total in (
        (10, timer.on_partitions_assigned, ONE, 10),
        (20, timer.on_partitions_assigned, TWO, 10),
        (30, timer.on_partitions_revoked, ONE, 10),
        (35, timer.on_partitions_assigned, ONE, 10),
        (38, timer.on_partitions_revoked, ONE, 10),
        (40, timer.on_partitions_revoked, TWO, 10),
        (45, timer.on_partitions_assigned, ONE, 15),
    ):
        change({partition})
        assert timer.ms == total


def test_rebalance_timer_counts_the_time_before_an_empty_assignment_once() -> None:
    clock = SimpleNamespace(now=0)
    timer = RebalanceTimer(lambda: clock.now)
    clock.now = 10
    timer.on_partitions_assigned(set())
    clock.now = 15
    timer.on_partitions_assigned({ONE})
    assert timer.ms == 15


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2026-03-04 00:06:07:089"),
        ("yy/M/d h:m a", "26/3/4 12:6 AM"),
        ("EEE, dd MMM yyyy K:k:s", "Wed, 04 Mar 2026 0:24:7"),
        ("EEEE MMMM D u", "Wednesday March 63 3"),
        ("'at' HH 'o''clock' ''Z", "at 00 o'clock '+0000"),
    ],
)
def test_date_format_formats_dates_as_java(pattern: str, text: str) -> None:
    assert DateFormat(pattern, "--date-format", UTC).text(1_772_582_767_089) == text


@pytest.mark.parametrize(("pattern", "words"), [("yyyy 'x", "a quote is not closed"), ("jj", "'j' is not a letter")])
def test_date_pattern_that_java_rejects_is_rejected(pattern: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=f"--date-format .*{words}"):
        DateFormat(pattern, "--date-format")

"""Ring buffers of samples, rates, charts and formatted values."""

from __future__ import annotations

import math

import pytest

from ottla_console.cluster.samples import Point, RateMeter, SampleRing
from ottla_console.web.charts import line_chart
from ottla_console.web.texts import NONE, nbytes, number, parsed_time, timestamp


def test_ring_has_the_last_samples_of_each_series() -> None:
    ring = SampleRing(capacity=3)
    for i in range(5):
        ring.append(i, {"a": i} if i != 3 else {})
    assert ring.points("a") == [Point(2, 2), Point(4, 4)]
    assert ring.latest("a") == 4
    assert ring.latest("b") is None


def test_ring_drops_series_without_samples_and_beyond_the_limit() -> None:
    ring = SampleRing(capacity=2, max_series=1)
    ring.append(0, {"a": 1, "b": 1})
    assert ring.points("b") == []
    for i in (1, 2):
        ring.append(i, {})
    ring.append(3, {"b": 5})
    assert ring.points("a") == []
    assert ring.latest("b") == 5


def test_rate_counts_only_partitions_in_both_samples() -> None:
    meter = RateMeter()
    assert meter.rates(10, {("a", 0): 100}) is None
    assert meter.rates(12, {("a", 0): 150, ("a", 1): 1000}) == {"a": 25}
    assert meter.rates(13, {("a", 0): 0, ("a", 1): 1001}) == {"a": 1}  # the topic was created again


def test_chart_escapes_its_label_and_draws_all_points() -> None:
    chart = line_chart([Point(0, 1), Point(5, 3), Point(10, 2)], "<b>", number)
    assert "&lt;b&gt;" in chart
    assert "<b>2</b>" in chart
    assert 'points="0.0,79.3 320.0,2.0 640.0,40.7"' in chart
    for too_few in ([], [Point(0, 1)]):
        assert "shown from the second one on" in line_chart(too_few, "Rate", number)


@pytest.mark.parametrize(
    ("value", "text"), [(None, NONE), (0, "0"), (0.25, "0.2"), (12.4, "12"), (1234567, "1,234,567")]
)
def test_number_has_thousands_separators(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(("value", "text"), [(-1, NONE), (100, "100 B"), (1536, "1.5 KiB"), (5 * 2**40, "5.0 TiB")])
def test_size_has_a_binary_unit(value: int, text: str) -> None:
    assert nbytes(value) == text


def test_times_are_parsed_and_formatted_as_utc() -> None:
    assert parsed_time("2026-11-24T12:00") == parsed_time("2026-11-24T13:00+01:00") == 1795521600000
    assert timestamp(1795521600000) == "2026-11-24 12:00:00.000Z"
    assert timestamp(-1) == timestamp(2**62) == NONE
    assert math.isclose(parsed_time("42"), 42)

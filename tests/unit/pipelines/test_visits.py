"""Generated page visits: seeds, malformed lines and late visits."""

import re

from ottla_pipelines.ingest.visits import BREAKS, visits

GOOD = re.compile(rb'[^ ]+ - - \[[^\]]+/Mar/[^\]]+\] "GET /[^ \xff]* HTTP/1.1" \d{3} \d+ "[^"]*" "[^"]*"')


def test_equal_seeds_generate_equal_visits() -> None:
    assert list(visits(7, 300)) == list(visits(7, 300))
    assert list(visits(7, 300)) != list(visits(8, 300))


def test_malformed_lines_have_the_requested_share() -> None:
    values = [v.value for v in visits(1, 20_000, malformed=0.05)]
    broken = sum(1 for value in values if value is None or not GOOD.fullmatch(value))
    assert 800 < broken < 1200
    assert all(v.value is not None and GOOD.fullmatch(v.value) for v in visits(1, 2000, malformed=0))


def test_every_malformation_breaks_a_line() -> None:
    import random

    (good,) = (v.value for v in visits(1, 1, malformed=0))
    assert good is not None
    for change in BREAKS:
        broken = change(good, random.Random(0))
        assert broken is None or not GOOD.fullmatch(broken), change.__name__


def test_late_visits_are_at_most_latest_s_late() -> None:
    from ottla_pipelines.ingest.visits import LATEST_S

    latest, late = 0, 0
    for visit in visits(3, 5000, late=0.1):
        behind_s = (latest - visit.timestamp_ms) / 1000
        late += behind_s > 1
        assert behind_s <= LATEST_S
        latest = max(latest, visit.timestamp_ms)
    assert late > 300

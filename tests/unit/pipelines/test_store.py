"""The database of results: statistics and state are committed once per micro-batch."""

import datetime as dt
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")

from ottla.errors import ConfigurationError, IllegalStateError
from ottla.model import TopicPartition
from ottla_pipelines.catalog import DELAYS
from ottla_pipelines.refine.store import Read, Results, Store

FLIGHTS_0 = TopicPartition("flights", 0)
HOUR = dt.datetime(2013, 1, 1, 6)
WEATHER = dict.fromkeys(("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure"), 1.5)
OBSERVATION = {"origin": "EWR", "time_hour": HOUR, **WEATHER, "visib": None}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.interop)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path / 'x.db'}" if request.param == "sqlite" else request.getfixturevalue("postgresql_url")
    with Store.open(url) as opened:
        opened.drop()
        opened.create()
        yield opened


def delays(flights: int, delay_max: int | None, carrier: str = "UA") -> dict[str, object]:
    key = {"day": dt.date(2013, 1, 1), "airport": "EWR", "carrier": carrier, "weather": "fair"}
    sums = {"cancelled": 1, "delayed": 2, "delay_sum": -3, "arrived": 4, "arrival_delay_sum": 5}
    return {**key, **sums, "flights": flights, "delay_max": delay_max}


def results(*rows: dict[str, object], next_offset: int = 5, records: int = 5) -> Results:
    return Results({FLIGHTS_0: Read(next_offset, records)}, rows_out=3, adds={DELAYS.name: rows})


def test_statistics_of_micro_batches_are_added(store: Store) -> None:
    store.commit(0, "q", results(delays(10, None)))
    store.commit(1, "q", results(delays(1, 7), delays(4, 2, "AA")))
    store.commit(2, "q", results(delays(1, 6)))
    store.commit(3, "q", results(delays(1, None)))
    american, united = store.rows(DELAYS)
    assert (american["carrier"], american["flights"], american["delay_max"]) == ("AA", 4, 2)
    assert (united["flights"], united["delay_sum"], united["delay_max"]) == (13, -12, 7)
    assert united["day"] == dt.date(2013, 1, 1)


def test_micro_batch_is_committed_once(store: Store) -> None:
    assert not store.is_committed(0, "q")
    assert store.commit(0, "q", results(delays(10, 1)))
    assert store.is_committed(0, "q")
    assert not store.commit(0, "q", results(delays(10, 1)))
    assert store.rows(DELAYS)[0]["flights"] == 10
    assert store.totals() == (1, 5, 3)


def test_failed_commit_is_rolled_back(store: Store) -> None:
    broken = {**delays(10, 1), "flights": None}
    with pytest.raises(Exception, match=r"(?i)null"):  # an error of the database driver
        store.commit(0, "q", results(delays(1, 1, "AA"), broken))
    assert not store.is_committed(0, "q")
    assert store.rows(DELAYS) == []
    assert store.progress() == {}
    assert store.commit(0, "q", results(delays(10, 1)))


def test_results_of_another_query_are_rejected(store: Store) -> None:
    store.commit(0, "q", results())
    with pytest.raises(IllegalStateError, match="another run"):
        store.is_committed(0, "other")
    with pytest.raises(IllegalStateError, match="another run"):
        store.commit(1, "other", results())


def test_state_for_the_next_micro_batch_is_stored(store: Store) -> None:
    first = Results(
        {FLIGHTS_0: Read(3, 3)},
        rows_out=0,
        observations=[OBSERVATION],
        frontiers=[{"origin": "EWR", "time_hour": HOUR}],
        pending=[{"seq": 9, "value": "b"}, {"seq": 2, "value": "a"}],
    )
    store.commit(0, "q", first)
    state = store.state()
    assert list(state.observations) == [OBSERVATION]
    assert state.frontiers == {"EWR": HOUR}
    assert state.pending == ["a", "b"]
    later = HOUR + dt.timedelta(hours=1)
    store.commit(1, "q", Results({FLIGHTS_0: Read(4, 1)}, 2, frontiers=[{"origin": "EWR", "time_hour": later}]))
    assert store.state().frontiers == {"EWR": later}
    assert store.state().pending == []
    assert store.progress() == {FLIGHTS_0: Read(4, 4)}
    assert store.batch_ids() == [1]


def test_drop_keeps_other_tables(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as other:
        other.execute("create table precious (n)")
    with Store.open(f"sqlite:///{path}") as store:
        store.create()
        store.drop()
    with sqlite3.connect(path) as other:
        assert other.execute("select name from sqlite_master").fetchall() == [("precious",)]


@pytest.mark.parametrize("url", ["nonsense", "sqlite:////nonexistent/x.db", "mysql://h/x"])
def test_invalid_database_url_is_rejected(url: str) -> None:
    with pytest.raises(ConfigurationError, match="--database"):
        Store.open(url)


def test_connection_error_hides_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(ConfigurationError) as raised:
        Store.open("postgresql://me:secret@127.0.0.1:1/x")
    assert "secret" not in str(raised.value)

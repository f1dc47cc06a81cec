"""Runs of declarative pipelines: killed runs, refreshes, and errors before and in Spark."""

import datetime as dt
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from ottla.errors import ConfigurationError
from ottla_pipelines.declarative.projects import TEMPLATES, create
from ottla_pipelines.declarative.runs import (
    RunOptions,
    Unfinished,
    _finish,
    check_catalog,
    check_names,
    errors_on_one_line,
    remove_orphans,
    run,
)
from ottla_pipelines.declarative.session import session
from ottla_pipelines.run import locked


def options(project: Path, **more: Any) -> RunOptions:
    return RunOptions(project / "spark-pipeline.yml", **more)


def killed_run(project: Path, **arguments: Any) -> Unfinished:
    """Return the state that a killed run leaves behind."""
    unfinished = Unfinished(project)
    unfinished.record(unfinished.refreshes_to_request(options(project, **arguments)))
    return Unfinished(project)


def test_completed_run_leaves_no_state(tmp_path: Path) -> None:
    unfinished = killed_run(tmp_path)
    assert unfinished.exists
    unfinished.done()
    assert not Unfinished(tmp_path).exists


def test_killed_full_refresh_is_resumed(tmp_path: Path) -> None:
    arguments = killed_run(tmp_path, full_refresh=["a"]).refreshes_to_request(
        options(tmp_path, full_refresh=["b"], refresh=["c"])
    )
    assert (arguments["full_refresh"], arguments["refresh"]) == (["a", "b"], ["c"])
    arguments = killed_run(tmp_path, full_refresh_all=True).refreshes_to_request(options(tmp_path, refresh=["c"]))
    assert (arguments["full_refresh_all"], arguments["refresh"]) == (True, [])


def test_emptied_tables_are_not_emptied_again(tmp_path: Path) -> None:
    unfinished = killed_run(tmp_path, full_refresh_all=True)
    unfinished.record(unfinished.refreshes_to_request(options(tmp_path)))
    unfinished.record_emptied()
    restarted = Unfinished(tmp_path)
    assert restarted.exists
    assert not restarted.refreshes_to_request(options(tmp_path))["full_refresh_all"]


def test_orphaned_directories_are_removed_except_those_of_streams(tmp_path: Path) -> None:
    for name in ("known", "stream", "orphan", "mine", "other.db"):
        (tmp_path / "tables" / name).mkdir(parents=True)
    (tmp_path / "pipeline-storage/_checkpoints/spark_catalog/default/stream/stream/0").mkdir(parents=True)
    tables = [SimpleNamespace(name="known")]
    spark = cast("Any", SimpleNamespace(catalog=SimpleNamespace(listTables=lambda: tables)))
    tables_of = tmp_path / "tables"
    arguments = {"full_refresh": [], "full_refresh_all": False}
    outputs = frozenset({"known", "stream", "orphan"})
    assert remove_orphans(spark, tmp_path, arguments, outputs) == [tables_of / "orphan"]
    assert sorted(p.name for p in tables_of.iterdir()) == ["known", "mine", "other.db", "stream"]
    assert remove_orphans(spark, tmp_path, arguments | {"full_refresh": ["stream"]}, outputs) == [tables_of / "stream"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"refresh": ["good", "visit"]}, "--refresh: there is no table 'visit'; did you mean Visits"),
        ({"refresh": ["visits"]}, "--refresh: there is no table 'visits'"),
        ({"full_refresh": ["letters"]}, "--full-refresh: 'letters' is not a table; Visits, good can be refreshed"),
    ],
)
def test_refresh_of_unknown_tables_is_rejected(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    """Spark would skip all tables, and report that the run is complete."""
    pytest.importorskip("grpc")
    from ottla_pipelines.declarative.graph import Graph

    graph = Graph("id", frozenset({"visits", "good", "letters"}), frozenset({"Visits", "good"}))
    with pytest.raises(ConfigurationError, match=message):
        check_names(options(tmp_path, **arguments), graph)
    check_names(options(tmp_path, refresh=["spark_catalog.default.Visits"], full_refresh=["good"]), graph)


def test_first_unresolved_flow_is_the_error_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc")
    from pyspark.errors import PySparkException

    from ottla_pipelines.declarative.graph import PipelineError

    def fail_to_resolve(*_: Any, **__: Any) -> Any:
        for name, reason in (("a", "[X] no column y"), ("b", "[Z] because of a")):
            resolution_error = f"Failed to resolve flow: '{name}'.\nError: {reason}\n'Project"
            timestamp = SimpleNamespace(ToDatetime=lambda tzinfo: dt.datetime(2026, 1, 1, tzinfo=tzinfo))
            yield {
                "pipeline_event_result": SimpleNamespace(
                    event=SimpleNamespace(timestamp=timestamp, message=resolution_error)
                )
            }
        raise PySparkException("Failed to resolve flows in the pipeline.")

    monkeypatch.setattr("pyspark.pipelines.spark_connect_pipeline.start_run", fail_to_resolve)
    with pytest.raises(PipelineError, match=r"^Failed to resolve flow: 'a': \[X\] no column y$"):
        _finish(cast("Any", None), "id", cast("Any", SimpleNamespace(storage="")), {}, lambda event: None)


@pytest.mark.parametrize(("free", "message"), [(0, r"spark\.log; the disk of "), (1 << 30, r"spark\.log$")])
def test_unexpected_exit_of_spark_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, message: str
) -> None:
    pytest.importorskip("grpc")
    from pyspark.errors import PySparkException

    from ottla_pipelines.declarative.graph import PipelineError

    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(PipelineError, match=f"^Unable to instantiate; see .*{message}"), errors_on_one_line(tmp_path):
        raise PySparkException("Unable to instantiate\n at java")


def test_second_concurrent_run_is_rejected(tmp_path: Path) -> None:
    """It would treat the first run as killed, and remove directories that are not in the catalog yet."""
    pytest.importorskip("yaml")
    create(tmp_path / "mine", TEMPLATES[1])
    with locked(tmp_path / "mine", ""), pytest.raises(ConfigurationError, match="another `ottla pipeline` is running"):
        run(options(tmp_path / "mine"), print)


def test_unreachable_connect_server_is_reported_at_once(tmp_path: Path) -> None:
    """Spark's client retries for ten minutes. The error does not show the token that may follow the address."""
    pytest.importorskip("grpc")
    create(tmp_path / "mine", TEMPLATES[1])
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        remote = f"sc://127.0.0.1:{unused.getsockname()[1]}/;token=secret"
        with pytest.raises(ConfigurationError, match=r"^--remote: cannot connect to 127\.0\.0\.1:\d+: (?!.*secret)"):
            run(options(tmp_path / "mine", remote=remote), print)


@pytest.mark.parametrize("remote", ["host", "host:15002", "sc://", "sc://host:port", "http://host:1"])
def test_invalid_connect_address_is_reported(tmp_path: Path, remote: str) -> None:
    pytest.importorskip("grpc")
    create(tmp_path / "mine", TEMPLATES[1])
    with pytest.raises(ConfigurationError, match=r"^--remote: .*use sc://HOST:PORT"):
        run(options(tmp_path / "mine", remote=remote), print)


def test_failed_start_of_spark_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc")
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql.connect.session import SparkSession

    def broken(*_: Any) -> None:
        raise PySparkRuntimeError("Java gateway process exited\nbefore sending its port number.", messageParameters={})

    monkeypatch.setattr(SparkSession, "_start_connect_server", broken)
    monkeypatch.setattr("ottla_pipelines.declarative.session.prepare_environment", lambda: None)
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    monkeypatch.setattr("ottla_pipelines.declarative.session.use_installed_pyspark", lambda: None)
    with (
        pytest.raises(ConfigurationError, match=r"Spark does not start: Java gateway .*spark\.log$"),
        session(tmp_path),
    ):
        pass


def test_moved_project_is_rejected(tmp_path: Path) -> None:
    """Spark would create the old directory again, with empty checkpoints, and send all rows to the sinks again."""
    for module in ("yaml", "grpc"):
        pytest.importorskip(module)
    create(tmp_path / "old", TEMPLATES[-1])
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(ConfigurationError, match=rf"storage: file://{tmp_path}/old/.* was moved or copied.*/new/"):
        run(options(tmp_path / "new"), print)
    assert not (tmp_path / "old").exists()


@pytest.mark.parametrize("existing", ["file:/projects/für-alle/tables", "file:///projects/f%C3%BCr-alle/tables/"])
def test_catalog_of_another_directory_is_rejected(existing: str) -> None:
    def at(warehouse: str) -> Any:
        catalog = SimpleNamespace(getDatabase=lambda name: SimpleNamespace(locationUri=existing))
        return SimpleNamespace(catalog=catalog, conf=SimpleNamespace(get=lambda name: warehouse))

    check_catalog(at("file:///projects/für-alle/tables"), Path("/projects/für-alle"))
    with pytest.raises(ConfigurationError, match="/copy was moved or copied from /projects/für-alle/tables, "):
        check_catalog(at("file:///copy/tables"), Path("/copy"))

"""The directory of a run: settings, end offsets, locking and clearing."""

from pathlib import Path

import pytest

from ottla.errors import ConfigurationError
from ottla.model import TopicPartition

pytest.importorskip("sqlalchemy")

from ottla_pipelines.run import Run, partitions


def test_saved_run_can_be_loaded(tmp_path: Path) -> None:
    run = Run(tmp_path / "d", limit=5, database="sqlite:///x.db")
    run.save()
    assert Run.load(tmp_path / "d") == run
    other = Run(tmp_path / "e", input=tmp_path / "f.csv", by="kind")
    other.save()
    assert Run.load(tmp_path / "e") == other


def test_end_offsets_are_none_until_saved(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.end_offsets() is None
    ends = {TopicPartition("flights", 0): 4, TopicPartition("weather", 1): 0}
    run.save_end_offsets(ends)
    assert run.end_offsets() == ends


def test_clear_rejects_a_directory_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(ConfigurationError, match="is not changed"):
        Run(tmp_path).clear()
    assert (tmp_path / "thesis.txt").exists()


def test_clear_rejects_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("precious")
    with pytest.raises(ConfigurationError, match="is a file; set a directory"):
        Run(tmp_path / "f").clear()


def test_clear_removes_an_earlier_run(tmp_path: Path) -> None:
    run = Run(tmp_path / "d")
    run.save()
    run.broker_data.mkdir()
    assert run.clear()
    assert not run.directory.exists()
    assert not run.clear()


def test_interrupted_clear_is_completed_and_the_run_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path / "d")
    run.save()
    for directory in (run.broker_data, run.checkpoint):
        directory.mkdir()

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("ottla_pipelines.run.shutil.rmtree", interrupt)
        run.clear()
    with pytest.raises(ConfigurationError, match="no run was started"):
        Run.load(tmp_path / "d")
    assert run.clear()
    assert not run.directory.exists()


def test_locked_directory_is_rejected_by_a_second_run(tmp_path: Path) -> None:
    run = Run(tmp_path / "d")
    run.save()
    with run.locked():
        with pytest.raises(ConfigurationError, match="another"), Run(tmp_path / "d").locked():
            pass
        with pytest.raises(ConfigurationError, match="another"):
            Run(tmp_path / "d").clear()
    assert run.clear()


def test_clear_working_files_keeps_results(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.save_end_offsets({})
    for directory in (run.broker_data, run.checkpoint, run.datasets):
        directory.mkdir()
    run.clear_working_files()
    assert run.datasets.exists()
    assert not run.broker_data.exists()
    assert not run.checkpoint.exists()
    assert run.end_offsets() is None


def test_load_rejects_a_missing_or_damaged_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no run was started"):
        Run.load(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(ConfigurationError, match="damaged"):
        Run.load(tmp_path)


def test_topics_depend_on_the_input() -> None:
    assert [t.name for t in Run(Path("d")).topics] == ["flights", "weather"]
    assert [t.name for t in Run(Path("d"), input=Path("f")).topics] == ["events"]
    assert len(list(partitions(Run(Path("d")).topics))) == 7

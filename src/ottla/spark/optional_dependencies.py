"""Error messages for packages of Ottla's extras that are not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def optional_dependency(name: str, *, extra: str) -> Iterator[None]:
    """Context manager: turn the error of a missing package in the block into an ImportError that says which extra to
    install. `name` is what needs the package. The error of a missing module of the package `ottla` itself is raised
    unchanged.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "ottla":
            raise
        raise ImportError(
            f"{name!r} needs the package {error.name}: pip install 'ottla[{extra}]' into the Python that runs it",
            name=error.name,
        ) from error

"""What of Ottla's extras is missing, told by the name of the extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def optional_dependency(name: str, *, extra: str) -> Iterator[None]:
    """Around imports: what is missing is an ImportError that names the format (or call) and the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "ottla":
            raise
        raise ImportError(
            f"{name!r} needs the package {error.name}: pip install 'ottla[{extra}]' into the Python that runs it",
            name=error.name,
        ) from error

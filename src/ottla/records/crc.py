"""CRC32C, the checksum of every v2 batch, from the crc32c library's native function.

Only the library's inner extension is loaded, because its package reads its own version through importlib.metadata,
which takes about 50 ms. If the extension is not found, or the package is imported already, the package itself is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["crc32c"]


def _native() -> Callable[[Buffer, int], int]:
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations and "crc32c" not in sys.modules:
        spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = spec.loader.create_module(spec)
            if module is not None:
                spec.loader.exec_module(module)
                function: Callable[[Buffer, int], int] = module.crc32c
                return function
    from crc32c import crc32c as from_package

    return from_package


crc32c = _native()
"""`crc32c(buffer, value=0)`: CRC32C of a contiguous buffer, continued from `value`. Memoryviews are not copied."""

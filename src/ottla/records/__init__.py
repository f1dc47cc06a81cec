"""Records and batches: the hot path.

The modules are plain Python; those in `_source.MODULES` may be compiled by Cython. With OTTLA_PURE=1 the plain form
runs even if a compiled one exists.
"""

import os as _os

if _os.environ.get("OTTLA_PURE"):
    from ottla.records._source import prefer_source

    prefer_source()


def __getattr__(name: str) -> bool:
    if name == "COMPILED":
        from ottla.records import varint

        return not str(varint.__file__).endswith(".py")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

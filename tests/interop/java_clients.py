"""Java clients of many versions, from Maven, running the scenarios in `java/`."""

import subprocess
import uuid
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest
from scripts import maven
from scripts.apache_kafka import SHORT_LIVED
from tests.interop.scenarios import checked_by

from ottla import KafkaAdminClient, NewTopic

SOURCES = Path(__file__).parent / "java"
Record = Callable[[str, str, str, list[str]], None]


@cache
def _jars(artifact: str, version: str) -> Path | str:
    """Return the folder with the jars, or why it is not available."""
    reason = maven.missing()
    if reason is not None:
        return reason
    try:
        return maven.jars(f"{artifact}-{version}", f"org.apache.kafka:{artifact}:{version}", maven.NO_LOGS)
    except subprocess.SubprocessError as error:
        return f"Maven could not fetch {artifact} {version}: {error}"


def java_libs(artifact: str, version: str) -> Path:
    """Return the folder with the jars. Skip the test if there is no Maven."""
    libs = _jars(artifact, version)
    if isinstance(libs, str):
        pytest.skip(f"Java clients: {libs}")
    return libs


def run_java(artifact: str, version: str, scenario: str, *arguments: str, with_: Sequence[str] = ()) -> list[str]:
    """Compile a scenario against that version, run it, and return what it checked. Skip the test without Maven."""
    return checked_by(java_command(artifact, version, scenario, *arguments, with_=("Check", *with_)))


def java_command(artifact: str, version: str, scenario: str, *arguments: str, with_: Sequence[str] = ()) -> list[str]:
    """Return the command of a program in `java/`, compiled against that version. Skip the test without Maven."""
    libs = java_libs(artifact, version)
    sources = [SOURCES / f"{name}.java" for name in (*with_, scenario)]
    try:
        classes = maven.compiled(f"{artifact}-{version}", libs, sources)
    except subprocess.CalledProcessError as error:
        pytest.fail(f"{scenario} does not compile against {artifact} {version}:\n{error.stderr[-3000:]}")
    return ["java", "-Xmx256M", *SHORT_LIVED, "-cp", f"{classes}:{libs}/*", scenario, *arguments]


def topic_of(bootstrap: str, partitions: int = 3) -> str:
    name = f"java-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions, 1)])
    return name

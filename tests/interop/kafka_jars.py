"""Apache Kafka's own classes, fetched through Maven into `.cache` once, for tests that let Kafka judge us."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

VERSION = os.environ.get("KAFKA_VERSION", "4.3.1")
CACHE = Path(__file__).parents[2] / ".cache" / f"kafka-{VERSION}"
FETCH_SECONDS = 600
RUN_SECONDS = 120

POM = f"""<project><modelVersion>4.0.0</modelVersion><groupId>org.ottla</groupId><artifactId>jars</artifactId>
<version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version></dependency>
</dependencies></project>
"""

LOGGING = """<Configuration status="ERROR"><Loggers><Root level="OFF"/></Loggers></Configuration>
"""


@cache
def libs() -> Path:
    """The directory of the jars. Skips the test where Java or Maven is missing or Maven cannot fetch them."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed, and Apache Kafka's tools need it")
    directory = CACHE / "libs"
    done = CACHE / ".done"
    if not done.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "pom.xml").write_text(POM)
        (CACHE / "log4j2.xml").write_text(LOGGING)
        command = ["mvn", "-q", "-B", "-ntp", "-f", str(CACHE / "pom.xml"), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={directory}"]
        fetched = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
        if fetched.returncode:
            pytest.skip(f"Maven could not fetch Apache Kafka {VERSION}: {fetched.stdout.strip()[-200:]}")
        done.touch()
    return directory


def run_tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a class of Kafka's to its end, with its output as text."""
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={CACHE / 'log4j2.xml'}"]
    return subprocess.run(
        ["java", *options, "-cp", f"{libs()}/*", name, *arguments],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )

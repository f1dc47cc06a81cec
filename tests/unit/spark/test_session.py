"""The environment of a Spark session, and Java's code cache."""

import os
import re
import subprocess
import sys

import pytest

from ottla.java import find_java
from ottla.spark.session import FIRST_COMPILER_ONLY, prepare_environment

UNSAFE_MEMORY_ACCESS = "ARROW_ENABLE_UNSAFE_MEMORY_ACCESS"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the environment by one without any settings."""
    monkeypatch.setattr("os.environ", {"PATH": os.environ["PATH"]})
    monkeypatch.setattr("ottla.spark.session.java_home", lambda: "/opt/java")


def test_prepare_environment_sets_the_variables_of_a_session() -> None:
    prepare_environment()
    assert os.environ["JAVA_HOME"] == "/opt/java"
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ[UNSAFE_MEMORY_ACCESS] == "true"


def test_prepare_environment_keeps_variables_of_the_user() -> None:
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.2", UNSAFE_MEMORY_ACCESS: "false"}
    prepare_environment()
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.2"
    assert os.environ[UNSAFE_MEMORY_ACCESS] == "false"


def test_first_compiler_only_has_as_large_a_code_cache() -> None:
    """With Java's default of 48 MiB for one compiler, a pipeline ended with a VirtualMachineError."""
    assert code_cache_bytes(FIRST_COMPILER_ONLY) >= code_cache_bytes("-XX:+TieredCompilation")


def code_cache_bytes(options: str) -> int:
    command = [str(find_java().executable), *options.split(), "-XX:+PrintFlagsFinal", "-version"]
    flags = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    match = re.search(r"ReservedCodeCacheSize\s*=\s*(\d+)", flags)
    assert match is not None
    return int(match[1])

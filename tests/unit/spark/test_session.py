import os
import re
import subprocess
import sys

import pytest

from ottla.java import find_java
from ottla.spark.session import FIRST_COMPILER_ONLY, prepare_environment

UNCHECKED = "ARROW_ENABLE_UNSAFE_MEMORY_ACCESS"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a program that has set nothing, and as before when the test is done."""
    monkeypatch.setattr("os.environ", {"PATH": os.environ["PATH"]})
    monkeypatch.setattr("ottla.spark.session.java_home", lambda: "/opt/java")


def test_what_a_session_starts_by_is_set() -> None:
    prepare_environment()
    assert os.environ["JAVA_HOME"] == "/opt/java"
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ[UNCHECKED] == "true"


def test_what_the_user_has_set_stays() -> None:
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.2", UNCHECKED: "false"}
    prepare_environment()
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.2"
    assert os.environ[UNCHECKED] == "false"


def test_without_the_second_compiler_there_is_as_much_room_for_code() -> None:
    """A pipeline that filled the 48 MiB that Java has then ended with a VirtualMachineError."""
    assert room_for_code(FIRST_COMPILER_ONLY) >= room_for_code("-XX:+TieredCompilation")


def room_for_code(options: str) -> int:
    command = [str(find_java().executable), *options.split(), "-XX:+PrintFlagsFinal", "-version"]
    flags = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    match = re.search(r"ReservedCodeCacheSize\s*=\s*(\d+)", flags)
    assert match is not None
    return int(match[1])

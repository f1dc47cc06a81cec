import os
import sys

import pytest

from ottla.spark.session import prepare_environment

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

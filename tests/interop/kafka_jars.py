"""Apache Kafka's own classes, for tests that let Kafka judge us."""

import subprocess
from functools import cache

import pytest
from scripts import apache_kafka


@cache
def _missing() -> str | None:
    return apache_kafka.missing()


def run_tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a class of Kafka's to its end, with its output as text. Skips the test where it cannot be had."""
    reason = _missing()
    if reason:
        pytest.skip(f"Apache Kafka's tools: {reason}")
    return apache_kafka.tool(name, *arguments)

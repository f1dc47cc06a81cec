"""Every tool that connects to a cluster reports the cause of a connection mistake, and its fix, within two seconds."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from tests.unit.client.connection_mistakes import MISTAKES, properties

pytestmark = pytest.mark.interop

TOOLS = {
    "topics": "--list",
    "configs": "--describe --entity-type topics --entity-name t",
    "client-metrics": "--list",
    "acls": "--list",
    "groups": "--list",
    "consumer-groups": "--list",
    "share-groups": "--list",
    "get-offsets": "--topic t",
    "log-dirs": "--describe",
    "leader-election": "--election-type preferred --all-topic-partitions",
    "broker-api-versions": "",
    "reassign-partitions": "--list",
    "transactions": "list",
    "features": "describe",
    "console-producer": "--topic t",
    "console-consumer": "--topic t",
    "console-share-consumer": "--topic t",
    "producer-perf-test": "--topic t --num-records 5 --record-size 10 --throughput -1",
    "consumer-perf-test": "--topic t --num-records 5",
    "e2e-latency": "--topic t --num-records 5 --producer-acks all --record-size 10",
    "verifiable-producer": "--topic t --max-messages 3",
    "verifiable-consumer": "--topic t --group-id g",
    "top": "--once",
}
"""The tools, with arguments with which they connect at once."""
GLOBAL_FIRST = ("transactions", "features")
"""Tools whose action comes after the address."""
CAUSES = {
    "nothing listens on the port": r"connection refused; is a broker running at this address\?",
    "plaintext client, TLS listener": r"the listener uses TLS; set security\.protocol to SSL or SASL_SSL",
    "plaintext client, SASL listener": r"does the listener require SASL \(security\.protocol\)\?",
    "wrong password": r"Invalid username or password \(sasl\.mechanism=PLAIN user=ann\)",
}
NO_MISTAKE = (
    ("features", "plaintext client, SASL listener"),
    ("broker-api-versions", "plaintext client, SASL listener"),
)
"""These send only ApiVersions, which needs no authentication."""
CAUSE_SECONDS = 2.0
LIMIT_SECONDS = 30.0
ATTEMPTS = 3
"""Another process may use the CPU during one of them."""


@pytest.fixture(scope="module")
def start_seconds() -> float:
    """Time that a command takes to start on this machine."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "ottla", "topics", "--help"], check=True, capture_output=True)
    return time.monotonic() - began


def command(tool: str, servers: str, config: str) -> list[str]:
    where = ["--bootstrap-server", servers, "--command-config", config]
    arguments = TOOLS[tool].split()
    rest = [*where, *arguments] if tool in GLOBAL_FIRST else [*arguments, *where]
    return [sys.executable, "-m", "ottla", tool, *rest]


def seconds_until_cause(tool: str, mistake: str, directory: Path) -> float:
    """Run a tool until it reports the cause, and return how long that took."""
    with MISTAKES[mistake].server() as servers:
        config = properties(MISTAKES[mistake].configs, directory)
        pipe = subprocess.PIPE
        began = time.monotonic()
        process = subprocess.Popen(
            command(tool, servers, config), stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(LIMIT_SECONDS, process.kill)
        timer.start()
        try:
            process.stdin.write("a record\n")
            process.stdin.flush()
            lines = []
            for line in process.stdout:
                lines.append(line)
                if re.search(CAUSES[mistake], line):
                    return time.monotonic() - began
            pytest.fail(f"{tool} does not name the cause: {''.join(lines)}")
        finally:
            timer.cancel()
            process.kill()
            process.communicate()


@pytest.mark.parametrize(
    ("tool", "mistake"), [(tool, cause) for tool in TOOLS for cause in CAUSES if (tool, cause) not in NO_MISTAKE]
)
def test_tool_reports_the_cause_within_two_seconds(
    tool: str, mistake: str, tmp_path: Path, start_seconds: float
) -> None:
    limit = CAUSE_SECONDS + 2 * start_seconds
    assert any(seconds_until_cause(tool, mistake, tmp_path) < limit for _ in range(ATTEMPTS))

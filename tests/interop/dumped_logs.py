"""Segment files printed by Kafka's DumpLogSegments and by `ottla dump-log`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.interop.kafka_jars import run_tool

TOOL = "org.apache.kafka.tools.DumpLogSegments"


def files(directory: Path, *suffixes: str) -> str:
    actual = sorted(str(path) for path in directory.iterdir() if path.suffix in suffixes and path.stat().st_size)
    assert actual
    return ",".join(actual)


def ours(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from ottla.cli.main import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", code, "dump-log", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def compare(*arguments: str) -> str:
    kafkas, own = run_tool(TOOL, *arguments), ours(*arguments)
    assert kafkas.returncode == 0, kafkas.stderr
    assert own.stdout == kafkas.stdout
    assert own.returncode == 0
    return kafkas.stdout + kafkas.stderr

"""Apache Kafka from Maven Central, as the peer of tests and benchmarks: its tools, and one node on loopback.

Jars are downloaded once into `.cache/`. If `missing()` returns a reason, tests and benchmarks skip.
"""

from __future__ import annotations

import atexit
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from scripts import maven
from scripts.maven import SHORT_LIVED as SHORT_LIVED
from scripts.tool_host import ToolHost

VERSION = "4.3.1"
AS_SHIPPED = ("-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""What kafka-server-start.sh gives the broker."""
NO_CONFIGS: Mapping[str, object] = {}
TOOL_HOST = Path(__file__).parent / "java" / "ToolHost.java"


def missing(version: str = VERSION) -> str | None:
    """Return why Apache Kafka is not available on this machine, or None. The first call downloads it."""
    reason = maven.missing()
    if reason is not None:
        return reason
    try:
        libs(version)
    except subprocess.SubprocessError as error:
        return f"Maven could not fetch Apache Kafka {version}: {error}"
    return None


def libs(version: str = VERSION) -> Path:
    """Return the directory with all jars of this version."""
    group = "org.apache.kafka"
    artifacts = (f"{group}:kafka_2.13:{version}", f"{group}:kafka-tools:{version}", maven.NO_LOGS)
    return maven.jars(f"kafka-{version}", *artifacts)


def java(main: str, *arguments: str, version: str = VERSION, heap: Sequence[str] | None = None) -> list[str]:
    """Return the command line of a class in the jars. Without `heap`, the JVM is small and uses `class_archive`."""
    if heap is None:
        archive = class_archive(version)
        # Another Java does not use the archive, and would say so on the standard output.
        shared = (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable") if archive.exists() else ()
        heap = ("-Xmx256M", *SHORT_LIVED, *shared)
    return ["java", *heap, "-cp", f"{libs(version)}/*", main, *arguments]


def class_archive(version: str = VERSION) -> Path:
    """Return the archive of the classes that a node loads (JEP 350), which tests create.

    It saves tools a third of their CPU time.
    """
    return libs(version).parent / "classes.jsa"


def tool(main: str, *arguments: str, version: str = VERSION, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's tools without input, and return its result unchecked. Tools of one version share a JVM."""
    return _tool_host(version).run(main, arguments, timeout)


@cache
def _tool_host(version: str) -> ToolHost:
    classes = maven.compiled(f"kafka-{version}", libs(version), [TOOL_HOST])
    program, *options = java("ToolHost", version=version)
    place = options.index("-cp") + 1
    options[place] += f":{classes}"
    host = ToolHost([program, *options])
    atexit.register(host.close)
    return host


def prepare_node(
    directory: Path,
    port: int,
    version: str = VERSION,
    configs: Mapping[str, object] = NO_CONFIGS,
    jvm: Sequence[str] = AS_SHIPPED,
) -> list[str]:
    """Configure and format a node (KRaft) in `directory`, and return the command that runs it in the foreground.

    `configs` are further ones, by Kafka's names; `jvm` are the options of its JVM.
    """
    directory.mkdir(parents=True, exist_ok=True)
    properties = directory / "server.properties"
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 5,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "log.dirs": directory / "log",
        **configs,
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    formatting = ("format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(properties))
    tool("kafka.tools.StorageTool", *formatting, version=version).check_returncode()
    return java("kafka.Kafka", str(properties), version=version, heap=jvm)


def wait_for_end(process: subprocess.Popen[bytes], seconds: float = 20) -> None:
    """Stop a node, and kill it if that takes too long."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

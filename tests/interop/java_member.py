"""Kafka's console consumer as a member of a group, beside our consumers."""

from __future__ import annotations

import subprocess
from pathlib import Path

from scripts import apache_kafka


class JavaMember:
    """The console consumer and the lines that it prints. `setting` is a config of Java's consumer, `name=value`."""

    def __init__(self, bootstrap: str, topic: str, setting: str, folder: Path) -> None:
        self.output = folder / f"java-{setting}.out"
        command = apache_kafka.java(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", topic, "--from-beginning"),
            *("--command-property", setting),
        )
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)

    def seen(self) -> list[bytes]:
        return [line for line in self.output.read_bytes().splitlines() if line.isdigit()]

    def close(self) -> None:
        apache_kafka.wait_for_end(self.process)

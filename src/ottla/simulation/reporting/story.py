"""The story of a violation: the events of the partitions and clients that it names, and the contents of their logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ottla.simulation.checking.log_files import LogFiles
from ottla.simulation.clients.administration import TOPIC_WORKLOADS
from ottla.simulation.clients.probes import PROBES
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.history import ORDERED, TRANSFERS, UNCLEAN
from ottla.simulation.reporting.requests import batch_text

MAX_LINES: Final = 120
"""Maximum number of lines in a story; the last ones are shown."""
MAX_BATCHES: Final = 12
"""Maximum number of batches that are shown per log; the last ones."""
WHOLE: Final = ("fault", "checker", "runner")
"""Sources whose lines all belong to the story."""
LIFE: Final = re.compile(r"starts|serves clients|is killed|loses power|is stopped|failed:|could not start")
PLACES: Final = (
    re.compile(r"([a-z_]+)-(\d+)"),
    re.compile(r"topic='([a-z_]+)', partition=(\d+)"),
    re.compile(r"SentRecord\(producer='()[^']*', partition=(\d+)"),
)
PROBER: Final = "prober"
REJECTED: Final = "requests are rejected"
CLIENT: Final = re.compile(r"\b(?:producer|transfer|member|java|librdkafka|sharer)-\d+|\bsingle\b")
TOPICS: Final = frozenset({
    ORDERED, TRANSFERS, PROBES, UNCLEAN, *(kind.TOPIC for kind in TOPIC_WORKLOADS),
    "__consumer_offsets", "__transaction_state", "__share_group_state",
})  # fmt: skip


def partitions_of(violations: Sequence[str]) -> list[tuple[str, int]]:
    """Return the partitions of the topics in TOPICS that violations name, sorted."""
    named = {
        (match[1] or ORDERED, int(match[2]))
        for text in violations
        for pattern in PLACES
        for match in pattern.finditer(text)
    }
    return sorted(place for place in named if place[0] in TOPICS)


def clients_of(violations: Sequence[str]) -> list[str]:
    """Return the clients that violations name, or whose requests they are about."""
    names = {match[0] for text in violations for match in CLIENT.finditer(text)}
    return sorted(names | {PROBER for text in violations if text.startswith(REJECTED)})


def story(timeline: Sequence[str], violations: Sequence[str]) -> list[str]:
    """Return the last MAX_LINES of the timeline's lines that concern the violations, up to the first violation. If
    there are more such lines, a line with the number of those left out comes first.
    """
    places, clients = partitions_of(violations), clients_of(violations)
    end = next((n + 1 for n, line in enumerate(timeline) if "VIOLATION" in line), len(timeline))
    lines = [line for line in timeline[:end] if _concerns(line, places, clients)]
    left_out = len(lines) - MAX_LINES
    return ([f"… {left_out} lines before"] if left_out > 0 else []) + lines[-MAX_LINES:]


def _concerns(line: str, places: Sequence[tuple[str, int]], clients: Sequence[str]) -> bool:
    process, text = line[11:24].strip(), line[24:]
    if process in WHOLE or process in clients or LIFE.search(text):
        return True
    if any(re.search(rf"\b{client}\b", text) for client in clients):
        return True
    return any(
        re.search(rf"\b{topic}-{partition}\b", text) or f"/{topic}/partitions/{partition}/" in text
        for topic, partition in places
    )


def stored_logs(cluster: SimulatedCluster, violations: Sequence[str]) -> Iterator[str]:
    """Yield descriptions of the logs on each broker, for the partitions that violations name: end offset and last
    batches.
    """
    for topic, partition in partitions_of(violations):
        for broker in cluster.brokers:
            for directory in broker.log_dirs:
                path = Path(directory) / f"{topic}-{partition}"
                if path.is_dir():
                    yield f"{broker.name} ({broker.host}) {topic}-{partition}: {_log_text(path)}"


def _log_text(path: Path) -> str:
    files = LogFiles(path)
    shown = [batch_text(batch.header) for batch in files.batches[-MAX_BATCHES:]]
    more = len(files.batches) - len(shown)
    text = f"ends at {files.end_offset}: " + (f"{more} batches, " if more > 0 else "") + "; ".join(shown)
    return text + "".join(f"; {damage}" for damage in files.damage)

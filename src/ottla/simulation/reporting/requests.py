"""Requests and responses in the timeline, with the brokers that handle them and the client ids.

Both are written as lines, usually one per partition. The messages in LEFT_OUT, which are frequent, are left out, as are
fetches without records or errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from ottla import errors
from ottla.broker import dispatch
from ottla.broker.apis import BY_KEY
from ottla.protocol.message import Struct
from ottla.records.batch import LOG_OVERHEAD, BatchHeader, read_header
from ottla.simulation.process import PROCESS
from ottla.simulation.world import Timeline

LEFT_OUT: Final = frozenset({
    "ApiVersions", "Metadata", "FindCoordinator", "SaslHandshake", "SaslAuthenticate", "Heartbeat", "UpdateMetadata",
    "ShareGroupHeartbeat", "DescribeCluster",
})  # fmt: skip
OMITTED_FIELDS: Final = frozenset({
    "throttle_time_ms", "error_message", "configs", "live_leaders", "node_endpoints", "topic_id", "session_epoch",
    "aborted_transactions", "max_bytes", "forgotten_topics_data", "partition_max_bytes", "timeout_ms",
})  # fmt: skip
"""Fields that are not written, because they do not help to explain a failure."""
NO_TOPIC: Final = UUID(int=0)
TOPIC: Final = ("topic", "name", "topic_name")
PARTITION: Final = ("partition_index", "index", "partition")
MAX_CHARACTERS: Final = 400


def record_requests(timeline: Timeline) -> None:
    """Make all brokers write the requests that they handle, and their responses, to the timeline, for the rest of this
    process.
    """
    handle, finish = dispatch.Dispatch._handle, dispatch._finish
    names: dict[UUID, str] = {}

    def handled(self: dispatch.Dispatch, request: Any, header: Any, *arguments: Any) -> Any:
        names.update(self.broker.image.names)
        _note(timeline, header, f"got {{}} from {header.client_id}", flat(request, names))
        return handle(self, request, header, *arguments)

    def finished(answer: Any, header: Any, *arguments: Any) -> Any:
        if answer is not None:
            _note(timeline, header, f"answered {{}} to {header.client_id}", flat(answer, names))
        return finish(answer, header, *arguments)

    vars(dispatch)["_finish"] = finished
    setattr(dispatch.Dispatch, "_handle", handled)  # noqa: B010


def _note(timeline: Timeline, header: Any, what: str, lines: Iterator[str]) -> None:
    name = BY_KEY[header.api_key].name
    if name in LEFT_OUT:
        return
    process = PROCESS.get()
    for line in lines:
        if name != "Fetch" or "records=" in line or "error=" in line:
            host = "-" if process is None else process.name
            timeline.note(host, f"{what.format(f'{name} #{header.correlation_id}')}: {line}"[:MAX_CHARACTERS])


def flat(message: Struct, names: Mapping[UUID, str]) -> Iterator[str]:
    """Yield a line for each innermost item of a message, such as a partition, with the fields of the enclosing items.
    Each line begins with the topic and partition, if the item has them. `names` are topic names by topic id.
    """
    for topic, partition, parts in _flat(message, names, "", ""):
        yield " ".join(part for part in (f"{topic}-{partition}" if partition else topic, *parts) if part)


Line = tuple[str, str, tuple[str, ...]]
"""A topic, a partition, and the fields."""


def _flat(message: Any, names: Mapping[UUID, str], topic: str, partition: str) -> Iterator[Line]:
    values = {field.name: getattr(message, field.name, None) for field in type(message).FIELDS}
    own_topic = next(
        (values[name] for name in TOPIC if values.get(name)), names.get(values.get("topic_id") or NO_TOPIC)
    )
    topic = topic or str(own_topic or "")
    partition = next((str(values[name]) for name in PARTITION if name in values), partition)
    own = tuple(_scalars(values))
    nested = [
        item
        for name, value in values.items()
        if isinstance(value, list) and name not in OMITTED_FIELDS
        for item in value
    ]
    inner = [item for item in nested if isinstance(item, Struct)]
    if not inner:
        yield topic, partition, own
    for item in inner:
        for place, number, parts in _flat(item, names, topic, partition):
            yield place, number, (*own, *parts)


def _scalars(values: dict[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if name in (*TOPIC, *PARTITION, *OMITTED_FIELDS) or value is False or value in (None, "", -1, b""):
            continue
        if name == "error_code":
            if value:
                yield f"error={errors.for_code(value).__name__}"
        elif name == "records":
            if text := _batches(value):
                yield f"records=[{text}]"
        elif isinstance(value, list):
            if value and not isinstance(value[0], Struct):
                yield f"{name}={value}"
        elif not isinstance(value, Struct):
            yield f"{name}={value}"


def _batches(records: Any) -> str:
    """Return the texts of the complete batches in `records` (see `batch_text`), separated by commas."""
    data = bytes(records.read() if hasattr(records, "read") else records)
    texts, position = [], 0
    while position + LOG_OVERHEAD < len(data):
        header = read_header(data, position)
        if header.length <= 0 or position + header.length + LOG_OVERHEAD > len(data):
            break
        texts.append(batch_text(header))
        position += header.length + LOG_OVERHEAD
    return ", ".join(texts)


def batch_text(header: BatchHeader) -> str:
    """Return the offsets and leader epoch of a batch as text, with its producer and sequence if it has a producer."""
    text = f"offsets {header.base_offset}-{header.last_offset} epoch {header.leader_epoch}"
    if header.producer_id >= 0:
        text += f" producer {header.producer_id}/{header.producer_epoch} sequence {header.base_sequence}"
    return text + (" marker" if header.is_control else "")

"""Unmodified third-party clients against our broker: topics, every codec, and a group whose members join and leave."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable

import pytest
from tests.interop.python_clients import CLIENTS, CODECS, Client, Seen

from ottla import Broker
from ottla.records.batch import split

pytestmark = pytest.mark.interop

PER_CODEC = 2000
Record = Callable[[str, str, str, list[str]], None]


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    reason = request.param.missing()
    if reason:
        pytest.skip(reason)
    fixture: Client = request.param
    return fixture


def test_group_of_three_sees_every_record_of_every_codec_once(
    client: Client, bootstrap: str, compatibility: Record
) -> None:
    topic = group = f"{client.name}-{uuid.uuid4().hex[:8]}"
    client.create_topic(bootstrap, topic, 6)
    seen = Seen()
    sent: list[str] = []
    members = [client.join(bootstrap, group, topic, seen) for _ in range(2)]
    try:
        for number, codec in enumerate(CODECS):
            values = [f"{codec}-{i}-{'x' * (i % 50)}" for i in range(PER_CODEC)]
            client.produce(bootstrap, topic, values, codec)
            sent += values
            assert seen.wait(len(sent)), f"{len(seen.values)} of {len(sent)} records after {codec}"
            if number == 1:
                members.append(client.join(bootstrap, group, topic, seen))
            if number == 3:
                members.pop(0).close()
    finally:
        for member in members:
            member.close()
    assert Counter(seen.values) == Counter(sent)
    codecs = [f"produce {codec}" for codec in CODECS]
    compatibility(
        client.name, client.version(), "records and groups", [*codecs, "a group of three, one joining, one leaving"]
    )


def test_next_member_resumes_from_the_committed_offsets(client: Client, bootstrap: str, compatibility: Record) -> None:
    topic = group = f"{client.name}-{uuid.uuid4().hex[:8]}"
    client.create_topic(bootstrap, topic, 6)
    for part in ("first", "second"):
        values = [f"{part}-{i}" for i in range(500)]
        client.produce(bootstrap, topic, values, "none")
        seen = Seen()
        member = client.join(bootstrap, group, topic, seen)
        assert seen.wait(len(values))
        member.close()
        assert Counter(seen.values) == Counter(values)
    compatibility(client.name, client.version(), "offsets", ["commit", "go on where the group committed"])


def test_batches_are_stored_in_the_configured_codec(client: Client, bootstrap: str, broker: Broker) -> None:
    """If librdkafka finds a broker incapable of a codec, it leaves batches uncompressed and only logs a line."""
    for codec in CODECS:
        topic = f"{client.name}-{codec}-{uuid.uuid4().hex[:8]}"
        client.create_topic(bootstrap, topic, 6)
        client.produce(bootstrap, topic, ["a value that repeats " * 20] * 50, codec)
        logs = b"".join(path.read_bytes() for path in broker.data_dir.glob(f"{topic}-*/*.log"))
        assert {header.codec for header, _, _ in split(logs)} == {CODECS.index(codec)}, codec

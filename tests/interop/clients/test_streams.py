"""Kafka Streams, unmodified, on our broker: a word count that is killed and resumed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.java_clients import Record, run_java, topic_of

pytestmark = pytest.mark.interop

JOBS = [("3.9.2", "at_least_once"), ("4.3.1", "exactly_once_v2")]


@pytest.mark.parametrize(("version", "guarantee"), JOBS)
def test_streams_word_count_is_correct_after_kills(
    bootstrap: str, tmp_path: Path, version: str, guarantee: str, compatibility: Record
) -> None:
    topics = [topic_of(bootstrap, 2), topic_of(bootstrap, 1)]
    job = (bootstrap, *topics, guarantee, str(tmp_path / "state"))
    checked = run_java("kafka-streams", version, "WordCount", *job)
    compatibility("Kafka Streams", version, guarantee, checked)

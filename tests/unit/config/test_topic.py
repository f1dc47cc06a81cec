"""Topic configs: their defaults, validation, broker synonyms and the configs of a log."""

import pytest

from ottla.config.topic import BROKER_SYNONYMS, LONG_MAX, LogConfig, TopicConfig, topic_defaults
from ottla.errors import ConfigurationError


def test_log_config_has_the_defaults_of_topic_configs() -> None:
    assert LogConfig.from_topic(TopicConfig({})) == LogConfig()


def test_log_config_has_the_topic_configs() -> None:
    topic = TopicConfig.from_kafka({"cleanup.policy": "compact,delete", "segment.bytes": "1000", "retention.ms": "-1"})
    log = LogConfig.from_topic(topic)
    assert (log.compacted, log.deletes, log.segment_bytes, log.retention_ms) == (True, True, 1000, -1)


def test_timestamp_difference_max_applies_to_unset_newer_configs() -> None:
    options = {"message.timestamp.difference.max.ms": "5", "message.timestamp.after.max.ms": "7"}
    log = LogConfig.from_topic(TopicConfig.from_kafka(options))
    assert (log.message_timestamp_before_max_ms, log.message_timestamp_after_max_ms) == (5, 7)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cleanup.policy", "shrink"),
        ("segment.bytes", "13"),
        ("segment.bytes", str(1 << 31)),
        ("compression.type", "rar"),
        ("compression.gzip.level", "0"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("retention.ms", "-2"),
        ("compression.lz4.level", "18"),
    ],
)
def test_invalid_topic_config_is_named_in_the_error(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=key):
        TopicConfig.from_kafka({key: value})


def test_usable_topic_config_omits_invalid_stored_values(caplog: pytest.LogCaptureFixture) -> None:
    topic = TopicConfig.usable("t", {"retention.ms": "7"}, {"retention.ms": "abc", "segment.bytes": "100", "own": "x"})
    assert (topic.retention_ms, topic.segment_bytes) == (7, 100)
    assert (
        "config of topic t, for which the broker's default applies: retention.ms: 'abc' is not allowed" in caplog.text
    )


def test_broker_configs_become_topic_defaults_in_kafkas_precedence() -> None:
    actual = topic_defaults({"log.retention.hours": "2", "log.retention.minutes": "30", "log.roll.hours": 1})
    assert actual == {"retention.ms": 30 * 60_000, "segment.ms": 3_600_000}
    assert topic_defaults({"log.retention.ms": "-1", "log.retention.hours": "2"}) == {"retention.ms": "-1"}
    assert topic_defaults({"log.retention.minutes": "-1"}) == {"retention.ms": "-1"}
    assert topic_defaults({}) == {}


def test_every_broker_synonym_belongs_to_a_topic_config() -> None:
    assert set(BROKER_SYNONYMS) <= set(TopicConfig.options)


def test_default_flush_ms_is_long_max_value() -> None:
    assert TopicConfig({}).flush_ms == LONG_MAX == 2**63 - 1


@pytest.mark.parametrize(
    ("version", "message_format"),
    [("0.8.0", 0), ("0.9.0", 0), ("0.10.0-IV0", 1), ("0.10.2", 1), ("0.11.0-IV2", 2), ("1.0", 2), ("3.0-IV1", 2)],
)
def test_message_format_version_maps_to_its_magic(version: str, message_format: int) -> None:
    assert LogConfig.from_topic(TopicConfig({"message.format.version": version})).message_format == message_format
    with pytest.raises(ConfigurationError, match="message.format.version"):
        TopicConfig({"message.format.version": version + "x"})

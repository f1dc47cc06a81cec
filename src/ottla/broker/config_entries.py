"""Options as DescribeConfigs tells them: value, where it comes from, type and documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.config.options import REQUIRED, Option
from ottla.config.topic import TopicConfig, topic_defaults

# Where a value comes from (DescribeConfigsResponse.ConfigSource)
TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5
# What type it has (ConfigDef.Type)
BOOLEAN, STRING, INT, LIST, DOUBLE = 1, 2, 3, 7, 6


class Entry(NamedTuple):
    """One option with its value as text."""

    name: str
    value: str | None
    source: int
    type: int
    documentation: str
    sensitive: bool = False
    read_only: bool = False


def topic_entries(config: BrokerConfig, options: Mapping[str, str]) -> Iterator[Entry]:
    """All options of a topic: what is set on it, what the broker sets, and Kafka's defaults."""
    by_broker = topic_defaults(config.given)
    for name, option in TopicConfig.options.items():
        if name in options:
            yield _entry(option, options[name], TOPIC_CONFIG)
        elif name in by_broker:
            yield _entry(option, by_broker[name], STATIC_BROKER_CONFIG)
        else:
            yield _entry(option, option.default, DEFAULT_CONFIG)


def broker_entries(config: BrokerConfig) -> Iterator[Entry]:
    """All options of this broker. They are read once, at the start."""
    for name, option in type(config).options.items():
        source = STATIC_BROKER_CONFIG if name in config.given else DEFAULT_CONFIG
        yield _entry(option, config.values[name], source)._replace(read_only=True)


def text_of(value: Any) -> str | None:
    """An option's value as it would stand in a properties file."""
    if value is None or value is REQUIRED:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{k}:{v}" for k, v in value.items())
    return str(value)


def _entry(option: Option[Any], value: Any, source: int) -> Entry:
    kinds: tuple[tuple[type, int], ...] = ((bool, BOOLEAN), (int, INT), (float, DOUBLE), (tuple, LIST))
    kind = next((number for cls, number in kinds if isinstance(option.default, cls)), STRING)
    sensitive = "password" in option.key
    return Entry(option.key, None if sensitive else text_of(value), source, kind, option.doc, sensitive)

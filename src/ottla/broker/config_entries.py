"""Options as DescribeConfigs tells them: value, where it comes from, type and documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ottla.config.broker import DYNAMIC, BrokerConfig
from ottla.config.options import REQUIRED, Config, Option
from ottla.config.topic import TopicConfig, topic_defaults

# Where a value comes from (DescribeConfigsResponse.ConfigSource)
TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 2, 3, 4, 5
DYNAMIC_BROKER_LOGGER_CONFIG = 6
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
    synonyms: tuple[tuple[str, str | None, int], ...] = ()
    """Other places with a value, the next one to count first: name, value, source."""


def topic_entries(config: BrokerConfig, options: Mapping[str, str]) -> Iterator[Entry]:
    """All options of a topic: what is set on it, what the broker sets, and Kafka's defaults."""
    by_broker = topic_defaults(config.given)
    for name, option in TopicConfig.options.items():
        places = [(DEFAULT_CONFIG, option.default)]
        if name in by_broker:
            places.insert(0, (STATIC_BROKER_CONFIG, by_broker[name]))
        if name in options:
            places.insert(0, (TOPIC_CONFIG, options[name]))
        yield _entry(option, places)


def broker_entries(static: BrokerConfig, own: Mapping[str, str], for_all: Mapping[str, str]) -> Iterator[Entry]:
    """All options of a broker: what was set on it while it runs, on all brokers, in its file, and Kafka's defaults."""
    for name, option in type(static).options.items():
        places = [(DEFAULT_CONFIG, option.default)]
        if name in static.given:
            places.insert(0, (STATIC_BROKER_CONFIG, static.values[name]))
        if name in for_all:
            places.insert(0, (DYNAMIC_DEFAULT_BROKER_CONFIG, for_all[name]))
        if name in own:
            places.insert(0, (DYNAMIC_BROKER_CONFIG, own[name]))
        yield _entry(option, places)._replace(read_only=name not in DYNAMIC)


def dynamic_entries(for_all: Mapping[str, str]) -> Iterator[Entry]:
    """What is set on all brokers while they run."""
    for name, value in for_all.items():
        yield _entry(BrokerConfig.options[name], [(DYNAMIC_DEFAULT_BROKER_CONFIG, value)])


def class_entries(
    config: type[Config], options: Mapping[str, str], source: int, defaults: Mapping[str, Any] | None = None
) -> Iterator[Entry]:
    """All options of a resource that has nothing but what is set on it and defaults: Kafka's, or those given."""
    for name, option in config.options.items():
        places = [(DEFAULT_CONFIG, option.default if defaults is None else defaults[name])]
        if name in options:
            places.insert(0, (source, options[name]))
        yield _entry(option, places)


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


def _entry(option: Option[Any], places: list[tuple[int, Any]]) -> Entry:
    kinds: tuple[tuple[type, int], ...] = ((bool, BOOLEAN), (int, INT), (float, DOUBLE), (tuple, LIST))
    kind = next((number for cls, number in kinds if isinstance(option.default, cls)), STRING)
    sensitive = "password" in option.key
    (source, value), *others = places
    return Entry(
        option.key,
        None if sensitive else text_of(value),
        source,
        kind,
        option.doc,
        sensitive,
        synonyms=tuple((option.key, None if sensitive else text_of(v), s) for s, v in others),
    )

"""Configs as DescribeConfigs returns them: value, source, type and documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from ottla.broker.config.dynamic_config import DynamicBrokerConfig
from ottla.config.broker.broker_config import DYNAMIC, BrokerConfig, renewed_listener
from ottla.config.options import REQUIRED, Config, Option, is_secret
from ottla.config.topic import BROKER_SYNONYMS, TopicConfig, in_ms

# sources (DescribeConfigsResponse.ConfigSource)
TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 2, 3, 4, 5
DYNAMIC_BROKER_LOGGER_CONFIG = 6
# types (ConfigDef.Type)
BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7


class ConfigSource(NamedTuple):
    """A place where a config may have a value: the source's number, the config's name there, and the value."""

    source: int
    name: str
    value: Any


class Entry(NamedTuple):
    """A config as DescribeConfigs returns it. `value`: as text; None if it has none, or it is sensitive."""

    name: str
    value: str | None
    source: int
    type: int
    documentation: str
    sensitive: bool = False
    read_only: bool = False
    synonyms: tuple[tuple[str, str | None, int], ...] = ()
    """The config's synonyms in the order of precedence: name, value (None if sensitive) and source."""


def topic_entries(live: DynamicBrokerConfig, options: Mapping[str, str]) -> Iterator[Entry]:
    """Yield the configs of a topic.

    A value comes from the topic, from the corresponding broker config, or from the default.
    """
    for name, option in TopicConfig.options.items():
        places = [ConfigSource(TOPIC_CONFIG, name, options[name])] if name in options else []
        for synonym in BROKER_SYNONYMS.get(name, ()):
            places += _set_on_broker(live, synonym)
        places += _broker_default(name)
        entry = _entry(option, places, _of_topic(option, places))
        yield entry._replace(type=LONG) if entry.type == INT and _is_long(option) else entry


def broker_entries(live: DynamicBrokerConfig) -> Iterator[Entry]:
    """Yield the configs of this broker.

    A value comes from the dynamic configs of the broker, those of all brokers, the broker's static configs, or the
    default.
    """
    for name, option in type(live.static).options.items():
        places = [*_set_on_broker(live, name), ConfigSource(DEFAULT_CONFIG, name, option.default)]
        entry = _entry(option, places, places[0].value)._replace(read_only=name not in DYNAMIC)
        yield entry._replace(type=LONG) if name in _longs() else entry


def dynamic_entries(for_all: Mapping[str, str]) -> Iterator[Entry]:
    """Yield the dynamic configs that are set for all brokers together."""
    for name in for_all.keys() & BrokerConfig.options.keys():
        value = for_all[name]
        yield _entry(BrokerConfig.options[name], [ConfigSource(DYNAMIC_DEFAULT_BROKER_CONFIG, name, value)], value)
    yield from unknown_entries({}, for_all)


def unknown_entries(own: Mapping[str, str], for_all: Mapping[str, str]) -> Iterator[Entry]:
    """Yield the dynamic configs that have no row in the table of broker configs: unknown ones, and those of one
    listener, such as `listener.name.external.ssl.keystore.location`.

    The values of listeners' certificate configs are shown unless they are secrets. Other values are not shown, because
    they may be secrets.
    """
    for options, source in ((own, DYNAMIC_BROKER_CONFIG), (for_all, DYNAMIC_DEFAULT_BROKER_CONFIG)):
        for name in options.keys() - BrokerConfig.options.keys():
            hidden = renewed_listener(name) is None or is_secret(name)
            value = None if hidden else options[name]
            yield Entry(name, value, source, STRING, "", sensitive=hidden, synonyms=((name, value, source),))


def class_entries(
    config: type[Config],
    options: Mapping[str, str],
    source: int,
    defaults: Mapping[str, ConfigSource] = MappingProxyType({}),
) -> Iterator[Entry]:
    """Yield the configs of a resource: the values that are set on it, else those in `defaults`, else the configs' own
    defaults.

    `source`: the number of the source of values that are set on the resource.
    """
    for name, option in config.options.items():
        places = [ConfigSource(source, name, options[name])] if name in options else []
        if name in defaults:
            places.append(defaults[name])
        yield _entry(option, places, places[0].value if places else option.default)


def text_of(value: Any) -> str | None:
    """Return a config's value as text, as in a properties file; None for None and REQUIRED."""
    if value is None or value is REQUIRED:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if type(value) in (tuple, list):  # not the types of config.broker, which have a text of their own
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{k}:{v}" for k, v in value.items())
    return str(value)


def _set_on_broker(live: DynamicBrokerConfig, name: str) -> Iterator[ConfigSource]:
    if name in live.own:
        yield ConfigSource(DYNAMIC_BROKER_CONFIG, name, live.own[name])
    if name in live.for_all:
        yield ConfigSource(DYNAMIC_DEFAULT_BROKER_CONFIG, name, live.for_all[name])
    if name in live.static.originals:
        yield ConfigSource(STATIC_BROKER_CONFIG, name, live.static.values[name])


def _broker_default(name: str) -> Iterator[ConfigSource]:
    """Yield the default of the first broker config that a topic config falls back to."""
    for synonym in BROKER_SYNONYMS.get(name, ())[:1]:
        yield ConfigSource(DEFAULT_CONFIG, synonym, BrokerConfig.options[synonym].default)


def _of_topic(option: Option[Any], places: list[ConfigSource]) -> Any:
    """Return the value of a topic config.

    If it is from a broker config in hours or minutes, convert it to milliseconds.
    """
    if not places or places[0].value is None:
        return option.default
    return in_ms(places[0].name, places[0].value)


def _is_long(option: Option[Any]) -> bool:
    """Return whether a topic config has the type LONG: its values may have more than 32 bits."""
    try:
        option.parse(1 << 32)
    except (ValueError, TypeError):
        return False
    return True


@cache
def _longs() -> frozenset[str]:
    """Return the broker configs of type LONG: those that are defaults of topic configs of this type, except those in
    hours and minutes.
    """
    long = (names for topic, names in BROKER_SYNONYMS.items() if _is_long(TopicConfig.options[topic]))
    return frozenset(name for names in long for name in names if not name.endswith((".hours", ".minutes")))


def _entry(option: Option[Any], places: list[ConfigSource], value: Any) -> Entry:
    kinds: tuple[tuple[type, int], ...] = ((bool, BOOLEAN), (int, INT), (float, DOUBLE), (tuple, LIST))
    kind = next((number for cls, number in kinds if isinstance(option.default, cls)), STRING)
    sensitive = is_secret(option.key)
    places_set = [place for place in places if text_of(place.value) is not None]
    return Entry(
        option.key,
        None if sensitive else text_of(value),
        places_set[0].source if places_set else DEFAULT_CONFIG,
        kind,
        option.doc,
        sensitive,
        synonyms=tuple((name, None if sensitive else text_of(v), source) for source, name, v in places_set),
    )

"""Levels of this broker's loggers (KIP-412). As in Kafka, they are lost when the process ends."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ottla.broker.config.config_entries import DEFAULT_CONFIG, DYNAMIC_BROKER_LOGGER_CONFIG, STRING, Entry
from ottla.broker.request_context import RequestContext
from ottla.errors import InvalidConfigError, InvalidRequestError
from ottla.security.acl import ResourceType

ROOT = "ottla"
LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 1,
}
"""Python's log levels by the names of Log4j's levels."""
NAMES = {number: name for name, number in LEVELS.items() if name != "TRACE"}


class BrokerLoggerResource:
    """The loggers of a broker. A config's name is the Python name of a logger, its value a level."""

    ruled_as = ResourceType.CLUSTER
    lists: frozenset[str] = frozenset()

    def path(self, name: str) -> None:
        return None

    def names(self, context: RequestContext) -> Iterable[str]:
        return map(str, context.broker.image.brokers)

    def entries(self, name: str, context: RequestContext) -> Iterable[Entry]:
        set_here = self.options(name, context)
        for logger in _loggers():
            level = NAMES.get(logging.getLogger(logger).getEffectiveLevel(), "INFO")
            source = DYNAMIC_BROKER_LOGGER_CONFIG if logger in set_here else DEFAULT_CONFIG
            yield Entry(logger, level, source, STRING, "The level of this logger.")

    def options(self, name: str, context: RequestContext) -> Mapping[str, str]:
        if name != str(context.broker.broker_id):
            raise InvalidRequestError(f"Unexpected broker id {name!r}, expected {context.broker.broker_id}")
        levels = {logger: logging.getLogger(logger).level for logger in _loggers()}
        return {logger: NAMES.get(level, "INFO") for logger, level in levels.items() if level != logging.NOTSET}

    def check(self, name: str, options: Mapping[str, str | None], context: RequestContext) -> dict[str, str]:
        loggers = set(_loggers())
        checked = {}
        for logger, level in options.items():
            if logger not in loggers:
                raise InvalidConfigError(f"Logger {logger} does not exist!")
            if level is None or level.upper() not in LEVELS:
                raise InvalidConfigError(f"{level!r} is not a level of {logger}; allowed: {', '.join(LEVELS)}")
            checked[logger] = level.upper()
        return checked

    async def set(self, name: str, options: Mapping[str, str], context: RequestContext) -> None:
        for logger in _loggers():
            logging.getLogger(logger).setLevel(LEVELS[options[logger]] if logger in options else logging.NOTSET)


def _loggers() -> list[str]:
    names = (name for name in logging.root.manager.loggerDict if name.startswith(ROOT + "."))
    return [ROOT, *sorted(names)]

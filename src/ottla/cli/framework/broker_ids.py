"""Brokers by their numbers, on the command line and in texts."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.errors import ConfigurationError


def broker_ids(parts: Iterable[str]) -> list[int]:
    """What a --broker-list has between its commas. ConfigurationError for what is no broker's number."""
    texts = list(parts)
    try:
        return [int(text) for text in texts]
    except ValueError:
        raise ConfigurationError(
            f"--broker-list: {','.join(texts)!r} is not allowed: broker,broker,… is wanted"
        ) from None


def ids(brokers: Iterable[int]) -> str:
    """Brokers, with commas."""
    return ",".join(map(str, brokers))

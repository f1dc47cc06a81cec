"""Options whose names Kafka has replaced."""

from __future__ import annotations

import argparse

from ottla.errors import ConfigurationError


def take_over(args: argparse.Namespace, old: str, new: str) -> bool:
    """What was given under the old name stands under the new one; whether anything was.

    ConfigurationError where both were given.
    """
    value = getattr(args, _attribute(old))
    if value is None:
        return False
    if getattr(args, _attribute(new)) is not None:
        raise ConfigurationError(f"{new} and {old} cannot be specified together: leave out {old}")
    setattr(args, _attribute(new), value)
    return True


def deprecation(old: str, new: str) -> str:
    """How most of Kafka's tools tell of it."""
    return f"Option {old} has been deprecated and will be removed in a future version. Use {new} instead."


def _attribute(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")

"""Deprecated names of options, which still work."""

from __future__ import annotations

import argparse

from ottla.errors import ConfigurationError


def use_new_name(args: argparse.Namespace, old: str, new: str) -> bool:
    """If an option was set by its old name, copy the value to its new name. Return whether that was the case.

    Raises ConfigurationError if both names were used.
    """
    value = getattr(args, _attribute(old))
    if value is None:
        return False
    if getattr(args, _attribute(new)) is not None:
        raise ConfigurationError(f"{new} and {old} cannot be specified together: leave out {old}")
    setattr(args, _attribute(new), value)
    return True


def deprecation(old: str, new: str) -> str:
    """Return the warning that an option is deprecated, in the words of Kafka's tools."""
    return f"Option {old} has been deprecated and will be removed in a future version. Use {new} instead."


def _attribute(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")

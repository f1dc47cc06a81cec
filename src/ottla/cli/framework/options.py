"""Options of commands: what argparse parses, and which actions take them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ottla.errors import ConfigurationError


class Option:
    """An option of a command, or a positional argument if its name has no dashes.

    Args:
        names: its names, separated by commas, and what stands for its value in the help: `--config, -c NAME=VALUE`.
        text: what it does, for the help. A default is added.
        parse: converts the value.
        actions: the actions that take it, separated by spaces; by default all of them.
        hint: what to do instead, by the name of an action that does not take it.
        settings: further keyword arguments for argparse's `add_argument`.
    """

    def __init__(
        self,
        names: str,
        text: str,
        parse: Callable[[str], Any] | None = None,
        *,
        actions: str = "",
        hint: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        *aliases, last = names.split(", ")
        name, _, metavar = last.partition(" ")
        self.names = (*aliases, name)
        self.dest: str = settings.get("dest") or self.names[0].lstrip("-").replace("-", "_")
        self.actions = actions.split()
        self._hint = hint or {}
        shown = f"{text} (default: %(default)s)" if settings.get("default") not in (None, "", [], False) else text
        self._settings = {"help": shown, **settings}
        if metavar:
            self._settings["metavar"] = metavar
        if parse is not None:
            self._settings["type"] = parse

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Declare the option to argparse."""
        parser.add_argument(*self.names, **self._settings)

    def check(self, args: argparse.Namespace) -> None:
        """Raise ConfigurationError if the option was set for an action that does not take it."""
        if self.actions and args.action not in self.actions and is_set(args, self.dest):
            remedy = self._hint.get(args.action) or f"it belongs to {' and '.join(f'--{a}' for a in self.actions)}"
            raise ConfigurationError(f"{self.names[0]} cannot be used with --{args.action}: {remedy}")


class Flag(Option):
    """An option without a value."""

    def __init__(self, names: str, text: str, **settings: Any) -> None:
        super().__init__(names, text, action="store_true", **settings)


class Repeatable(Option):
    """An option that may be repeated; its value is a list."""

    def __init__(self, names: str, text: str, **settings: Any) -> None:
        super().__init__(names, f"{text}; repeatable", action="append", default=[], **settings)


class OneOf:
    """Options of which only one may be used."""

    def __init__(self, *options: Option, required: bool = True) -> None:
        self.options = options
        self._required = required

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Declare the options to argparse."""
        group = parser.add_mutually_exclusive_group(required=self._required)
        for option in self.options:
            option.add_to(group)

    def check(self, args: argparse.Namespace) -> None:
        """Raise ConfigurationError if an option was set for an action that does not take it."""
        for option in self.options:
            option.check(args)


Options = tuple[Option | OneOf, ...]

JSON: Final = Flag("--json", "print JSON instead of text")


def is_set(args: argparse.Namespace, option: str) -> bool:
    """Return whether the command line has this option, whose default is empty."""
    value = getattr(args, option)
    return not (value is None or value is False or value == [])


def flag_name(option: str) -> str:
    """Return the name of an option on the command line: `--add-config` for `add_config`."""
    return f"--{option.replace('_', '-')}"


def broker_ids(parts: Iterable[str]) -> list[int]:
    """Parse the values of a `--broker-list`. Raises ConfigurationError for one that is no broker id."""
    texts = list(parts)
    try:
        return [int(text) for text in texts]
    except ValueError:
        raise ConfigurationError(
            f"--broker-list: {','.join(texts)!r} is not allowed: expected broker,broker,…"
        ) from None


def boolean(value: str | None, *, default: bool = False) -> bool:
    """Parse the value of a property such as `print.key=true`."""
    return default if value is None else value.strip().lower() == "true"


def unescape(value: str) -> bytes:
    """Return a separator with `\\t`, `\\n` and `\\0` replaced by the characters they stand for."""
    return value.replace("\\t", "\t").replace("\\n", "\n").replace("\\0", "\0").encode()

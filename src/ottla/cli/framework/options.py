"""The options of commands: how argparse parses them, and which actions accept them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ottla.errors import ConfigurationError


class Option:
    """An option of a command, or a positional argument if its name has no dashes.

    Args:
        names: its names, separated by a comma and a space, and the placeholder of its value in the help, such as
            `--config, -c NAME=VALUE`.
        text: the help text. The default value is added, unless it is None, False, 0 or empty.
        parse: converts the value from a string.
        actions: the names of the actions that accept it, separated by spaces; by default all.
        hint: the advice in the error message for actions that do not accept it, by the action's name.
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
        """Add the option to an argparse parser."""
        parser.add_argument(*self.names, **self._settings)

    def check(self, args: argparse.Namespace) -> None:
        """Raise ConfigurationError if the option was set, but the chosen action does not accept it."""
        if self.actions and args.action not in self.actions and is_set(args, self.dest):
            remedy = self._hint.get(args.action) or f"it belongs to {' and '.join(f'--{a}' for a in self.actions)}"
            raise ConfigurationError(f"{self.names[0]} cannot be used with --{args.action}: {remedy}")


class Flag(Option):
    """An option without a value: True if it is used, otherwise False."""

    def __init__(self, names: str, text: str, **settings: Any) -> None:
        super().__init__(names, text, action="store_true", **settings)


class Repeatable(Option):
    """An option that may be repeated; its value is a list."""

    def __init__(self, names: str, text: str, **settings: Any) -> None:
        super().__init__(names, f"{text}; repeatable", action="append", default=[], **settings)


class OneOf:
    """A group of options of which at most one may be used; exactly one if it is required."""

    def __init__(self, *options: Option, required: bool = True) -> None:
        self.options = options
        self._required = required

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Add the options to an argparse parser."""
        group = parser.add_mutually_exclusive_group(required=self._required)
        for option in self.options:
            option.add_to(group)

    def check(self, args: argparse.Namespace) -> None:
        """Raise ConfigurationError if one of the options was set, but the chosen action does not accept it."""
        for option in self.options:
            option.check(args)


Options = tuple[Option | OneOf, ...]

JSON: Final = Flag("--json", "print JSON instead of text")


def is_set(args: argparse.Namespace, option: str) -> bool:
    """Return whether an option was set on the command line. Its default must be None, False or an empty list. `option`
    is its attribute in the parsed arguments.
    """
    value = getattr(args, option)
    return not (value is None or value is False or value == [])


def flag_name(option: str) -> str:
    """Return the name of an option on the command line: `--add-config` for `add_config`."""
    return f"--{option.replace('_', '-')}"


def broker_ids(parts: Iterable[str]) -> list[int]:
    """Parse broker ids. Raises ConfigurationError, with the value of `--broker-list`, if one is not a number."""
    texts = list(parts)
    try:
        return [int(text) for text in texts]
    except ValueError:
        raise ConfigurationError(
            f"--broker-list: {','.join(texts)!r} is not allowed: expected broker,broker,…"
        ) from None


def boolean(value: str | None, *, default: bool = False) -> bool:
    """Parse the boolean value of a property such as `print.key=true`. Everything except "true" is False; case and
    surrounding whitespace are ignored. None, for a property that is not set, is the default.
    """
    return default if value is None else value.strip().lower() == "true"


def limit(text: str) -> int | None:
    """Parse a limit. A negative number, such as the default -1 of Kafka's tools, means no limit, as does None, which is
    returned for it.
    """
    number = int(text)
    return None if number < 0 else number


def unescape(value: str) -> bytes:
    """Return the UTF-8 bytes of a separator in which `\\t`, `\\n` and `\\0` are replaced by the characters that they
    stand for.
    """
    return value.replace("\\t", "\t").replace("\\n", "\n").replace("\\0", "\0").encode()

"""Declarations of commands: their options and actions, and one runner for all of them.

The module of each command has a `COMMAND`. `Command.main` parses the command line, rejects options that contradict each
other or do not belong to the action, and runs the action. The exit code is that of the action, 1 for a KafkaError, or
that of a CommandFailedError; argparse exits with 2 if it cannot parse the command line.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from ottla.cli.framework.options import Options, flag_name, is_set
from ottla.errors import ConfigurationError, KafkaError

_INVALID_CHOICE: Final = re.compile(
    r"argument .+: invalid choice: '(?P<word>.*)' \(choose from (?P<choices>.*)\)", re.S
)
_QUOTED: Final = re.compile(r"[\w.-]+")


class CommandFailedError(Exception):
    """An error that ends a command. `Command.main` prints the message on standard error, and returns `exit_code`."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def not_installed(command: str, error: ModuleNotFoundError, extra: str) -> CommandFailedError:
    """Return the error of a command that needs a package of an optional extra of Ottla; it names the extra to
    install.
    """
    return CommandFailedError(f"ottla {command}: {error.name} is not installed; run `pip install 'ottla[{extra}]'`")


class CommandParser(argparse.ArgumentParser):
    """A parser whose messages about unknown options and choices suggest a similar one, if there is one.

    Abbreviations are not accepted: an option that is added later could change the meaning of a script.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        self.arguments: list[str] = []
        """The command line that is being parsed. Parsers of subcommands share the list."""
        self.hints: Mapping[str, str] = {}
        """Replacements of options that the command does not have, by the names of the options."""

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse a command line. Raises SystemExit with 2 for wrong usage, and with 0 after an option such as `--help`
        or `--version`. Raises ConfigurationError if the argparse action of an option rejects its value, such as
        an empty address.
        """
        self.arguments[:] = arguments
        return self.parse_args(arguments)

    def add_version(self) -> None:
        """Add `--version`, unless the command already has this option, or passes its options on to another program."""
        if self.prefix_chars and "--version" not in self._option_string_actions:
            self.add_argument("--version", action=_Version, help="print the version of Ottla")

    def error(self, message: str) -> NoReturn:
        """Print the usage and an error, and raise SystemExit with 2. Unknown options with two dashes are reported in
        place of other errors.
        """
        unknown = list(self._unknown_options())
        if unknown:
            message = f"unrecognized arguments: {', '.join(unknown)}"
        elif (invalid := _INVALID_CHOICE.fullmatch(message)) is not None:
            message += _nearest(invalid["word"], _QUOTED.findall(invalid["choices"]))
        elif message.startswith("one of the arguments --bootstrap-server"):
            message += ", or OTTLA_BOOTSTRAP_SERVERS in the environment"
        super().error(message)

    def _unknown_options(self) -> Iterator[str]:
        if not self.prefix_chars:
            return  # all options are those of another program
        options = [name for parser in self._with_subparsers() for name in parser._option_string_actions]
        end = self.arguments.index("--") if "--" in self.arguments else len(self.arguments)
        for argument in self.arguments[:end]:
            name = argument.partition("=")[0]
            if name.startswith("--") and name not in options:
                hint = self.hints.get(name)
                yield name + (_nearest(name, options) if hint is None else f"; use {hint}")

    def _with_subparsers(self) -> Iterator[CommandParser]:
        yield self
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from action.choices.values()


def _nearest(word: str, candidates: Sequence[str]) -> str:
    from ottla.config.options import nearest  # only errors need it

    longer = [candidate for candidate in candidates if candidate.startswith(word)]
    return f"; did you mean {longer[0]}?" if longer else nearest(word, candidates)


class _Version(argparse.Action):
    """Prints the version of Ottla and exits. It is looked up only on request, because that takes longer than
    parsing.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "nargs": 0, "dest": argparse.SUPPRESS})

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        from importlib.metadata import version

        print(version("ottla"))
        parser.exit()


@dataclass(frozen=True)
class Action:
    """Something that a command can do: a flag such as `--create`, or a subcommand.

    In an `AdminCommand`, `run` is called with the admin client, the arguments and the output, and returns the document
    that `--json` prints; None leaves that of `Output.report`. If there is a `header`, it returns rows (dictionaries),
    which are printed as a table or as a JSON list. In other commands, `run` is called with the arguments, and returns
    the exit code; None means 0.
    """

    name: str
    help: str
    run: Callable[..., Any]
    options: Options = ()
    """The options of the action if it is a subcommand."""
    requires: tuple[str, ...] = ()
    """Options that the action requires, by their attributes in the parsed arguments."""
    conflicts: tuple[tuple[str, ...], ...] = ()
    """Groups of options: the first option of a group cannot be used together with any of the others."""
    header: tuple[str, ...] = ()
    check: Callable[[argparse.Namespace], None] | None = None
    """Further checks of the action's options, after `conflicts` and `requires`. Raises ConfigurationError."""

    def check_options(self, args: argparse.Namespace) -> None:
        """Raise ConfigurationError if options contradict each other, a required one is missing, or `check` fails."""
        for first, *others in self.conflicts:
            for other in others:
                if is_set(args, first) and is_set(args, other):
                    raise ConfigurationError(f"{flag_name(first)} and {flag_name(other)} cannot be used together")
        for option in self.requires:
            if not is_set(args, option):
                raise ConfigurationError(f"--{self.name} needs {flag_name(option)}")
        if self.check is not None:
            self.check(args)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command: its options, and either one function or actions."""

    options: Options = ()
    run: Callable[..., Any] | None = None
    actions: tuple[Action, ...] = ()
    subcommands: bool = False
    """Whether actions are subcommands instead of flags."""
    check: Callable[[argparse.Namespace], None] | None = None
    """The check of the options that runs before all other checks. Raises ConfigurationError."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """Replacements of options that users may expect but the command does not have, by the names of the options."""
    configure: Callable[[argparse.ArgumentParser], None] | None = None
    """Called with the parser before the options are added, for settings that options do not cover."""

    def main(self, name: str, description: str | None, arguments: list[str]) -> int:
        """Parse `arguments`, run the command, and return the exit code. A KafkaError of the command is printed on
        standard error after the name, with exit code 1. Raises the errors of `CommandParser.parse`.
        """
        args = self.parser(name, description).parse(arguments)
        try:
            return self.execute(args)
        except CommandFailedError as failure:
            print(failure, file=sys.stderr)
            return failure.exit_code
        except KafkaError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1

    def parser(self, name: str = "", description: str | None = None) -> CommandParser:
        """Return a parser with the actions and options of the command. `name` and `description` are for its help."""
        parser = CommandParser(prog=name, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.hints = self.hints
        self.fill(parser)
        return parser

    def fill(self, parser: CommandParser) -> None:
        """Add the actions and options of the command to a parser."""
        if self.configure is not None:
            self.configure(parser)
        if self.actions and not self.subcommands:
            group = parser.add_mutually_exclusive_group(required=True)
            for action in self.actions:
                group.add_argument(
                    f"--{action.name}", action="store_const", const=action.name, dest="action", help=action.help
                )
        for option in self.options:
            option.add_to(parser)
        if self.subcommands:
            self._add_subcommands(parser)
        parser.add_version()

    def _add_subcommands(self, parser: CommandParser) -> None:
        names = "|".join(action.name for action in self.actions)
        subparsers = parser.add_subparsers(dest="action", required=True, metavar=names)
        for action in self.actions:
            subparser = subparsers.add_parser(action.name, help=action.help, description=action.help)
            subparser.arguments = parser.arguments
            for option in action.options:
                option.add_to(subparser)

    def execute(self, args: argparse.Namespace) -> int:
        """Check the options, run the action or the command's function, and return the exit code."""
        action = self.check_options(args)
        run = self.run if action is None else action.run
        assert run is not None, "a command has a function or actions"
        return int(run(args) or 0)

    def check_options(self, args: argparse.Namespace) -> Action | None:
        """Check the options, and return the chosen action; None for a command without actions. Raises
        ConfigurationError if the options are invalid.
        """
        if self.check is not None:
            self.check(args)
        if not self.actions:
            return None
        action = next(action for action in self.actions if action.name == args.action)
        for option in self.options:
            option.check(args)
        action.check_options(args)
        return action

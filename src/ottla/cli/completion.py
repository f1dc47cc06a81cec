"""Print a script that completes commands and options in a shell.

ottla completion bash > ~/.local/share/bash-completion/completions/ottla
ottla completion zsh > ~/.zfunc/_ottla       (a directory of $fpath)
"""

from __future__ import annotations

import argparse
import importlib
from typing import Final

from ottla.cli.framework.command import Command, CommandFailedError, CommandParser
from ottla.cli.framework.options import Option

SHELLS: Final = ("bash", "zsh")


def run(args: argparse.Namespace) -> int:
    """Print the completion script of a shell for all commands. Commands whose packages are not installed are completed
    without their options. Raises CommandFailedError if shtab is not installed.
    """
    try:
        import shtab
    except ModuleNotFoundError:
        raise CommandFailedError("ottla completion needs the package shtab: pip install 'ottla[completion]'") from None
    print(shtab.complete(parser_of_all(), args.shell))
    return 0


def parser_of_all() -> CommandParser:
    """Return a parser with a subparser for each command, also for those of installed applications."""
    from ottla.cli import main

    parser = CommandParser(prog="ottla")
    parser.add_version()
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for entry in main.all_commands():
        # A command whose package is not installed (Spark) is completed without its options.
        try:
            command: Command | None = importlib.import_module(f"{entry.package}.{entry.module}").COMMAND
        except ImportError:
            command = None
        subparser = commands.add_parser(entry.name, help=entry.help)
        if command is not None:
            command.fill(subparser)
    return parser


COMMAND = Command(
    run=run, options=(Option("shell SHELL", f"shell that runs the script: {' or '.join(SHELLS)}", choices=SHELLS),)
)

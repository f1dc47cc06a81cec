"""Which options of a command belong to which of its actions: what would be passed over, or is missing, is an error.

Options and actions are named as argparse has them, without dashes; `args.action` is the one that was chosen.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from ottla.cli.framework.connection import as_typed, is_given
from ottla.errors import ConfigurationError


def check_belongs(
    args: argparse.Namespace,
    belongs: Mapping[str, tuple[str, ...]],
    instead: Mapping[tuple[str, str], str] | None = None,
) -> None:
    """ConfigurationError for an option of another action.

    Args:
        belongs: actions by option; options that are not here belong to all.
        instead: what does what was wanted, by action and option, where that is not the option's own action.
    """
    for option, actions in belongs.items():
        if is_given(args, option) and args.action not in actions:
            told = (instead or {}).get((args.action, option))
            remedy = told or f"it belongs to {' and '.join(f'--{action}' for action in actions)}"
            raise ConfigurationError(f"{as_typed(option)} cannot be used with --{args.action}: {remedy}")


def check_needs(args: argparse.Namespace, needs: Mapping[str, tuple[str, ...]]) -> None:
    """ConfigurationError for an option that the action cannot do without; `needs` has options by action."""
    for option in needs.get(args.action, ()):
        if not is_given(args, option):
            raise ConfigurationError(f"--{args.action} needs {as_typed(option)}")

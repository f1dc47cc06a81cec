"""Which options of `ottla topics` belong to which action, as Kafka's TopicCommand has it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from ottla.cli.framework.action_options import check_belongs, check_needs
from ottla.cli.framework.connection import as_typed, is_given
from ottla.errors import ConfigurationError

REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {"alter": ("partitions",)}
"""What an action cannot do without, beside --topic."""

BELONGS: Final[Mapping[str, tuple[str, ...]]] = {
    "partitions": ("create", "alter"),
    "replication_factor": ("create",),
    "replica_assignment": ("create", "alter"),
    "config": ("create",),
    "if_not_exists": ("create",),
    "if_exists": ("describe", "alter", "delete"),
    "exclude_internal": ("list", "describe"),
    "topics_with_overrides": ("describe",),
    "under_replicated_partitions": ("describe",),
    "unavailable_partitions": ("describe",),
}
"""Actions by option; options that are not here belong to all."""

APART: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("create", "replica_assignment"): ("partitions", "replication_factor"),
    ("describe", "topics_with_overrides"): ("under_replicated_partitions", "unavailable_partitions"),
}
"""What an option of an action cannot be used with."""

INSTEAD: Final[Mapping[tuple[str, str], str]] = {
    ("alter", "config"): "options of topics are changed with ottla configs --alter --topic",
}
"""What does what was wanted, where an option does not belong to an action."""


def check(args: argparse.Namespace) -> None:
    """ConfigurationError for an option that would be ignored, or is missing."""
    check_belongs(args, BELONGS, INSTEAD)
    for (needed, option), others in APART.items():
        for other in others:
            if args.action == needed and is_given(args, option) and is_given(args, other):
                raise ConfigurationError(f"{as_typed(option)} and {as_typed(other)} cannot be used together")
    check_needs(args, REQUIRED)

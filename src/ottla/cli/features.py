"""Describe, upgrade and downgrade the features of a cluster, as kafka-features.sh does."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import Action
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import JSON, Flag, Repeatable
from ottla.cli.framework.output import Output
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.cluster import FeatureUpdate, UpgradeType
from ottla.errors import ConfigurationError, KafkaError

UPGRADE: Final = "upgrade"
DOWNGRADE: Final = "downgrade"
DISABLE: Final = "disable"
PAST: Final = {UPGRADE: "upgraded to {}", DOWNGRADE: "downgraded to {}", DISABLE: "disabled"}


def describe(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[dict[str, Any]]:
    """Print the levels of features: those that brokers support, and the current one."""
    features = admin.describe_features()
    epoch = "-" if features.finalized_epoch is None else str(features.finalized_epoch)
    rows = []
    for name, supported in sorted(features.supported.items()):
        level = features.finalized[name].max_version if name in features.finalized else 0
        output.text(
            f"Feature: {name:<42}SupportedMinVersion: {supported.min_version:<17}"
            f"SupportedMaxVersion: {supported.max_version:<17}FinalizedVersionLevel: {level:<17}Epoch: {epoch}"
        )
        rows.append({"feature": name, **supported._asdict(), "finalized": level, "epoch": features.finalized_epoch})
    return rows


def update(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Set the levels of features; fails if one of them was not changed."""
    kind = UpgradeType.UPGRADE
    if args.action != UPGRADE:
        kind = UpgradeType.UNSAFE_DOWNGRADE if args.unsafe else UpgradeType.SAFE_DOWNGRADE
    levels = _levels(args)
    failed: dict[Any, KafkaError] = {}
    updates = {name: FeatureUpdate(level, kind) for name, level in levels.items()}
    admin.update_features(updates, args.dry_run, errors=failed)
    for name, level in sorted(levels.items()):
        target = "" if args.action == DISABLE else f" to {level}"
        if name in failed:
            output.text(f"Could not {args.action} {name}{target}. {str(failed[name]).removeprefix('features: ')}")
        else:
            verb = "can be" if args.dry_run else "was"
            output.text(f"{name} {verb} {PAST[args.action].format(level)}.")
    if failed:
        output.error(f"{len(failed)} out of {len(levels)} operation(s) failed.")
    return {
        "updated": {name: level for name, level in levels.items() if name not in failed},
        "errors": {name: str(error) for name, error in failed.items()},
    }


def _levels(args: argparse.Namespace) -> dict[str, int]:
    if not args.feature:
        raise ConfigurationError(f"You must specify at least one feature to {args.action}")
    levels: dict[str, int] = {}
    for text in args.feature:
        name, has_level, level = text.partition("=")
        if args.action == DISABLE:
            level = "0"
        elif not has_level or not level.strip().isdecimal():
            raise ConfigurationError(f"--feature: {text!r} is not allowed: expected NAME=LEVEL")
        if name in levels:
            raise ConfigurationError(f"Feature {name} was specified more than once.")
        levels[name.strip()] = int(level)
    return levels


_DRY_RUN: Final = Flag("--dry-run", "only validate the change")
_FEATURE: Final = Repeatable("--feature NAME=LEVEL", "a feature and its new level, such as transaction.version=2")
_UNSAFE: Final = Flag("--unsafe", "allow a downgrade that may lose metadata")

COMMAND = AdminCommand(
    options=connection(controllers=True),
    subcommands=True,
    error="{}",
    actions=(
        Action("describe", "print the features of the cluster", describe, options=(JSON,)),
        Action(UPGRADE, "upgrade features", update, options=(_FEATURE, _DRY_RUN, JSON)),
        Action(DOWNGRADE, "downgrade features", update, options=(_FEATURE, _UNSAFE, _DRY_RUN, JSON)),
        Action(
            DISABLE,
            "disable features: downgrade them to level 0",
            update,
            options=(Repeatable("--feature NAME", "a feature"), _UNSAFE, _DRY_RUN, JSON),
        ),
    ),
)

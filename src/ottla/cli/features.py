"""Describe, upgrade, downgrade and disable the features of a cluster, as kafka-features.sh does. Also print those of
releases of Apache Kafka.
"""

from __future__ import annotations

import argparse
from typing import Any, Final

from ottla.cli import feature_releases
from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import Action
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import JSON, Flag, Option, Repeatable
from ottla.cli.framework.output import Output
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.cluster import FeatureUpdate, UpgradeType
from ottla.errors import ConfigurationError, KafkaError

UPGRADE: Final = "upgrade"
DOWNGRADE: Final = "downgrade"
DISABLE: Final = "disable"
PAST: Final = {UPGRADE: "upgraded to {}", DOWNGRADE: "downgraded to {}", DISABLE: "disabled"}


def describe(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[dict[str, Any]]:
    """Print the finalized level (0: none) and the range of levels of each supported feature. Return them for JSON."""
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
    """Set the levels of features; with --dry-run, only validate them. The exit code is 1 if one of them is rejected."""
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
            output.text(f"Could not {args.action} {name}{target}. {_reason(name, failed[name])}")
        else:
            verb = "can be" if args.dry_run else "was"
            output.text(f"{name} {verb} {PAST[args.action].format(level)}.")
    if failed:
        output.error(f"{len(failed)} out of {len(levels)} operation(s) failed.")
    return {
        "updated": {name: level for name, level in levels.items() if name not in failed},
        "errors": {name: str(error) for name, error in failed.items()},
    }


def _reason(name: str, error: KafkaError) -> str:
    """Return why a feature was not changed. Brokers change all features or none, so their error may name another
    feature, which they rejected.
    """
    text = str(error).removeprefix("features: ")
    _, is_refused, rest = text.partition(" for feature ")
    refused = rest.partition(". ")[0]
    return f"Nothing was changed, as {refused} was refused." if is_refused and refused != name else text


def version_mapping(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, int]:
    """Print the level of each feature in the release of Apache Kafka in `--release-version`."""
    levels = feature_releases.levels_of(args.release_version)
    for name, level in levels.items():
        release = f" ({args.release_version})" if name == feature_releases.METADATA else ""
        output.text(f"{name}={level}{release}")
    return levels


def feature_dependencies(
    admin: KafkaAdminClient, args: argparse.Namespace, output: Output
) -> dict[str, dict[str, int]]:
    """Print which levels of other features each feature level in `--feature` requires."""
    document = {}
    for text in args.feature:
        name, level = _feature(text)
        shown = feature_releases.described(name, level)
        required = document[f"{name}={level}"] = feature_releases.dependencies(name, level)
        output.text(f"{shown} requires:" if required else f"{shown} has no dependencies.")
        output.text(*(f"    {feature_releases.described(*dependency)}" for dependency in required.items()))
    return document


def _levels(args: argparse.Namespace) -> dict[str, int]:
    release, metadata = getattr(args, "release_version", None), getattr(args, "metadata", None)
    if release is not None:
        if args.feature or metadata is not None:
            raise ConfigurationError("Can not specify `release-version` with other feature flags.")
        levels = feature_releases.levels_of(release)
        # a release upgrades no feature to 0
        return {name: level for name, level in levels.items() if level or args.action != UPGRADE}
    if not args.feature and metadata is None:
        raise ConfigurationError(f"You must specify at least one feature to {args.action}")
    levels = {} if metadata is None else {feature_releases.METADATA: feature_releases.metadata_level(metadata)}
    for text in args.feature:
        name, level = (text.strip(), 0) if args.action == DISABLE else _feature(text)
        if name in levels:
            raise ConfigurationError(f"Feature {name} was specified more than once.")
        levels[name] = level
    return levels


def _feature(text: str) -> tuple[str, int]:
    name, _, level = text.partition("=")
    if not level.strip().isdecimal():
        raise ConfigurationError(f"--feature: {text!r} is not allowed: expected NAME=LEVEL")
    return name.strip(), int(level)


_DRY_RUN: Final = Flag("--dry-run", "only validate the change, without making it")
_FEATURE: Final = Repeatable("--feature NAME=LEVEL", "feature and its new level, such as transaction.version=2")
_RELEASE: Final = Option(
    "--release-version VERSION", "set features to their levels in a release of Apache Kafka, such as 4.2"
)
_METADATA: Final = Option("--metadata VERSION", "metadata.version to set, such as 3.9-IV0 (deprecated in Kafka)")
_UNSAFE: Final = Flag("--unsafe", "allow a downgrade that may lose metadata")

COMMAND = AdminCommand(
    options=connection(controllers=True),
    subcommands=True,
    error="{}",
    actions=(
        Action("describe", "print the features of the cluster", describe, options=(JSON,)),
        Action(UPGRADE, "upgrade features", update, options=(_FEATURE, _RELEASE, _METADATA, _DRY_RUN, JSON)),
        Action(
            DOWNGRADE, "downgrade features", update, options=(_FEATURE, _RELEASE, _METADATA, _UNSAFE, _DRY_RUN, JSON)
        ),
        Action(
            DISABLE,
            "disable features: downgrade them to level 0",
            update,
            options=(
                Repeatable("--feature NAME", "feature to set to level 0, such as share.version"),
                _UNSAFE,
                _DRY_RUN,
                JSON,
            ),
        ),
        Action(
            "version-mapping",
            "print the levels of features in a release of Apache Kafka",
            version_mapping,
            options=(
                Option(
                    "--release-version VERSION",
                    "the release or metadata version, such as 4.2 or 4.0-IV1",
                    default=feature_releases.LATEST,
                ),
                JSON,
            ),
        ),
        Action(
            "feature-dependencies",
            "print the features that a level of a feature requires",
            feature_dependencies,
            options=(
                Repeatable(
                    "--feature NAME=LEVEL", "feature and level to look up, such as transaction.version=2", required=True
                ),
                JSON,
            ),
        ),
    ),
)

"""The features of Apache Kafka, and their levels in its releases, from `MetadataVersion` and `Feature` of Kafka 4.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.errors import ConfigurationError

METADATA: Final = "metadata.version"
FIRST_LEVEL: Final = 7
METADATA_VERSIONS: Final = (
    *("3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
    *("4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0"),
)
"""The levels of `metadata.version` in order. The first one has the number FIRST_LEVEL, each later one a number higher
by 1.
"""
LATEST: Final = "4.3-IV0"
"""The metadata version of the newest release. The version after it is not released yet, so it has no short name."""


class ReleasedFeature(NamedTuple):
    """A feature other than `metadata.version`, as the releases of Apache Kafka set it."""

    level: int
    """The level that releases set. All levels below it exist as well; 0 means that the feature is off."""
    since: int
    """The level of `metadata.version` from which releases set the feature."""
    required_metadata: int = 0
    """The minimum level of `metadata.version` for setting the feature; 0 for none."""


FEATURES: Final[Mapping[str, ReleasedFeature]] = {
    "kraft.version": ReleasedFeature(1, 21),
    "transaction.version": ReleasedFeature(2, 24),
    "group.version": ReleasedFeature(1, 22),
    "eligible.leader.replicas.version": ReleasedFeature(1, 26, required_metadata=23),
    "share.version": ReleasedFeature(1, 28),
    "streams.version": ReleasedFeature(1, 29),
}


def metadata_level(release: str) -> int:
    """Return the level of `metadata.version` for a minor release since 3.3 (such as 4.0) or for one of
    METADATA_VERSIONS (such as 4.0-IV1).

    Raises ConfigurationError for any other text.
    """
    released = METADATA_VERSIONS[: METADATA_VERSIONS.index(LATEST) + 1]
    names = {version.partition("-")[0]: version for version in released}  # the last version of each release
    version = names.get(release, release)
    if version not in METADATA_VERSIONS:
        supported = ", ".join(METADATA_VERSIONS)
        raise ConfigurationError(f"Unknown metadata.version '{release}'. Supported metadata.version are: {supported}")
    return FIRST_LEVEL + METADATA_VERSIONS.index(version)


def levels_of(release: str) -> dict[str, int]:
    """Return the levels of all features in a release or metadata version; 0 for a feature that is off. Raises
    ConfigurationError if the release is unknown.
    """
    metadata = metadata_level(release)
    levels = {name: feature.level if metadata >= feature.since else 0 for name, feature in FEATURES.items()}
    return {METADATA: metadata, **levels}


def described(name: str, level: int) -> str:
    """Return a feature and its level as text. Raises ConfigurationError if one of them is unknown."""
    if name == METADATA:
        index = level - FIRST_LEVEL
        if not 0 <= index < len(METADATA_VERSIONS):
            raise ConfigurationError(f"Unknown metadata.version {level}")
        return f"{name}={level} ({METADATA_VERSIONS[index]})"
    if name not in FEATURES:
        raise ConfigurationError(f"Unknown feature: {name}")
    if not 0 <= level <= FEATURES[name].level:
        raise ConfigurationError(f"No feature:{name} with feature level {level}")
    return f"{name}={level}"


def dependencies(name: str, level: int) -> dict[str, int]:
    """Return the levels of other features that a feature at this level requires; none for an unknown feature."""
    feature = FEATURES.get(name)
    if feature is None or not level or not feature.required_metadata:
        return {}
    return {METADATA: feature.required_metadata}

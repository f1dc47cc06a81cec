"""UpdateFeatures (key 57): set the levels of the cluster's features (KIP-584).

- version 1 adds the kind of each change, and can check changes without making them; 2 answers with one outcome for all
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class FeatureUpdateKey(Struct):
    """One feature and its new level; a level below 1 removes the feature."""

    feature: str = f.string("0+")
    max_version_level: int = f.int16("0+")
    allow_downgrade: bool = f.boolean("0")
    # 1: upgrade only; 2: downgrade without data loss; 3: downgrade even with data loss.
    upgrade_type: int = f.int8("1+", default=1)


class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"], api_key=57, versions="0-2", flexible="0+"):
    """The features, and their new levels."""

    timeout_ms: int = f.int32("0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = f.array(FeatureUpdateKey, "0+")
    validate_only: bool = f.boolean("1+")


class UpdatableFeatureResult(Struct):
    """The outcome of one feature."""

    feature: str = f.string("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")


class UpdateFeaturesResponse(Response, api_key=57, versions="0-2", flexible="0+"):
    """The error of the whole request, and up to version 1 a result for each feature."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
    results: list[UpdatableFeatureResult] = f.array(UpdatableFeatureResult, "0-1", ignorable=True)

"""UpdateFeatures: set the levels of the cluster's features. Requires ALTER on the cluster.

All features are changed or none, and an error applies to the whole request, in every version, as in Kafka since 4.0
(KIP-1022). Up to version 1, a successful response has a result for each feature. From version 1 on, requests
distinguish safe and unsafe downgrades; here every downgrade is safe.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.cluster.image.features import BY_NAME
from ottla.errors import InvalidUpdateVersionError
from ottla.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE = 1
SAFE_DOWNGRADE = 2
KINDS_SINCE = 1
"""The first version of UpdateFeatures that has the type of a change: upgrade, safe or unsafe downgrade."""
KRAFT_FEATURES = ("metadata.version", "kraft.version")
KRAFT_ONLY = "It belongs to KRaft, which Ottla does not have; upgrade other features by --feature NAME=LEVEL."


async def handle(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    context.broker.controller.term  # noqa: B018 - raises NotControllerError on other brokers, whose images may be outdated
    for update in request.feature_updates:
        _check(update, context)
    levels = {update.feature: update.max_version_level for update in request.feature_updates}
    if levels and not request.validate_only:
        await context.broker.controller.set_features(levels)
        context.log_change("Set the levels of features: %s", levels)
    results = [UpdatableFeatureResult(feature=feature, error_message=None) for feature in levels]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _check(update: FeatureUpdateKey, context: RequestContext) -> None:
    feature, level = BY_NAME.get(update.feature), update.max_version_level

    def reject(why: str) -> InvalidUpdateVersionError:
        return InvalidUpdateVersionError(
            "The update failed for all features since the following feature had an error: "
            f"Invalid update version {level} for feature {update.feature}. {why}"
        )

    if feature is None:
        raise reject(KRAFT_ONLY if update.feature in KRAFT_FEATURES else "This feature is unknown.")
    if not feature.first <= level <= feature.last:
        raise reject(f"Levels {feature.first} to {feature.last} are supported.")
    present = context.broker.image.features.get(feature.name, 0)
    kind = update.upgrade_type
    if context.version < KINDS_SINCE:
        kind = SAFE_DOWNGRADE if update.allow_downgrade and level < present else UPGRADE
    if level < present and kind == UPGRADE:
        raise reject(
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > present and kind != UPGRADE:
        raise reject("Can't downgrade to a newer version.")

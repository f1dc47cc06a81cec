"""ApiVersions: the supported APIs and versions. A request with an unsupported version is answered with version 0."""

from __future__ import annotations

import re

from ottla.broker.apis import BY_KEY, advertised_apis
from ottla.broker.broker_context import BrokerContext
from ottla.broker.request_context import RequestContext
from ottla.cluster.image.features import FEATURES
from ottla.errors import InvalidRequestError, RebootstrapRequiredError, UnsupportedVersionError
from ottla.protocol.header import API_VERSIONS
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

LEVEL_0_SINCE = 4
ANY_NODE = -1

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    """Return the supported APIs and features.

    From version 3 on, store the name and version of the client's software (KIP-511), or raise InvalidRequestError if
    they are invalid. From version 5 on, raise RebootstrapRequiredError if the client expects another cluster or broker
    at this address (KIP-1242).
    """
    if context.version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE.fullmatch(text):
                raise InvalidRequestError(f"client software name or version {text!r} is invalid")
        context.connection.state["software"] = f"{request.client_software_name} {request.client_software_version}"
    broker = context.broker
    _check_destination(request, broker)
    rows = [
        ApiVersion(api_key=entry.api.key, min_version=versions[0], max_version=versions[-1])
        for entry, versions in advertised_apis(telemetry=broker.telemetry.has_receivers, in_cluster=broker.in_cluster)
    ]
    return ApiVersionsResponse(
        api_keys=rows,
        supported_features=_supported(context.version),
        finalized_features_epoch=context.broker.image.features_epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in context.broker.image.features.items()
        ],
    )


def _check_destination(request: ApiVersionsRequest, broker: BrokerContext) -> None:
    if request.cluster_id not in (None, broker.image.cluster_id):
        raise RebootstrapRequiredError(
            f"this is cluster {broker.image.cluster_id}, but the client expects cluster {request.cluster_id}"
        )
    if request.node_id not in (ANY_NODE, broker.broker_id):
        raise RebootstrapRequiredError(f"this is broker {broker.broker_id}, but the client expects {request.node_id}")


def _supported(version: int) -> list[SupportedFeatureKey]:
    """Return the supported features.

    Version 3 reports a minimum level of 0 as 1, because its clients do not understand 0.
    """
    least = 0 if version >= LEVEL_0_SINCE else 1
    return [
        SupportedFeatureKey(name=feature.name, min_version=max(feature.first, least), max_version=feature.last)
        for feature in FEATURES
    ]


def unsupported() -> ApiVersionsResponse:
    """Return the response to an unsupported version of ApiVersions: the error, and the supported versions of
    ApiVersions.
    """
    versions = BY_KEY[API_VERSIONS].versions(in_cluster=False)
    return ApiVersionsResponse(
        error_code=UnsupportedVersionError.code or 0,
        api_keys=[ApiVersion(api_key=API_VERSIONS, min_version=versions[0], max_version=versions[-1])],
    )

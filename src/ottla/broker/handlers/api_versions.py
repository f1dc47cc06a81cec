"""ApiVersions: the table of what is served. Never refused: a version too new is answered in the layout of version 0."""

from __future__ import annotations

import re

from ottla.broker.apis import SERVED
from ottla.broker.services import Call
from ottla.errors import InvalidRequestError, UnsupportedVersionError
from ottla.protocol.header import API_VERSIONS
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    """All APIs; remembers which software the client says it is (KIP-511)."""
    if call.version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE.fullmatch(text):
                raise InvalidRequestError(f"client software name or version {text!r} is not valid")
        call.connection.state["software"] = f"{request.client_software_name} {request.client_software_version}"
    rows = [ApiVersion(api_key=row.api.key, min_version=row.first, max_version=row.last) for row in SERVED]
    return ApiVersionsResponse(api_keys=rows, finalized_features_epoch=0)


def unsupported() -> ApiVersionsResponse:
    """What a client gets that asked in a version we do not know: the error, and the versions of this API."""
    row = next(row for row in SERVED if row.api.key == API_VERSIONS)
    return ApiVersionsResponse(
        error_code=UnsupportedVersionError.code or 0,
        api_keys=[ApiVersion(api_key=row.api.key, min_version=row.first, max_version=row.last)],
    )

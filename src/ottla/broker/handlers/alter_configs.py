"""AlterConfigs: replace all configs of a resource.

Older clients use it. The authorization is that of IncrementalAlterConfigs.
"""

from __future__ import annotations

from ottla.broker.error_responses import errors_in
from ottla.broker.handlers.incremental_alter_configs import Change, alter
from ottla.broker.request_context import RequestContext
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    answers = []
    for resource in request.resources:
        answer = AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        with errors_in(answer):
            await alter(
                resource.resource_type, resource.resource_name, _replacing(resource), request.validate_only, context
            )
        answers.append(answer)
    return AlterConfigsResponse(responses=answers)


def _replacing(resource: AlterConfigsResource) -> Change:
    return lambda _present, _words_in: {c.name: c.value for c in resource.configs}

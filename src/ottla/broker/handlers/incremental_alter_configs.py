"""IncrementalAlterConfigs: set and delete configs of resources; append to and subtract from list configs.

Requires ALTER_CONFIGS on the topic or group; on the cluster for brokers, their loggers and client metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.broker.config.resources import table
from ottla.broker.error_responses import errors_in
from ottla.broker.request_context import RequestContext
from ottla.config.options import is_secret, words
from ottla.errors import InvalidConfigError, InvalidRequestError
from ottla.model import ACLOperation
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


async def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> IncrementalAlterConfigsResponse:
    answers = []
    for resource in request.resources:
        answer = AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        with errors_in(answer):
            await alter(
                resource.resource_type, resource.resource_name, _changes(resource), request.validate_only, context
            )
        answers.append(answer)
    return IncrementalAlterConfigsResponse(responses=answers)


Words = Callable[[str], tuple[str, ...]]
"""Returns the current items of a list config, or its default. Raises an error if the config is not a list."""
Change = Callable[[Mapping[str, str], Words], Mapping[str, str | None]]
"""Returns the new configs of a resource, from its current ones and a `Words` function."""


async def alter(kind: int, name: str, change: Change, validate_only: bool, context: RequestContext) -> None:
    """Replace the configs of a resource with those that `change` returns, or with `validate_only` only check them."""
    resource = table.permitted(kind, name, ACLOperation.ALTER_CONFIGS, context)

    def words_in(option: str) -> tuple[str, ...]:
        if option not in resource.lists:
            raise InvalidConfigError(f"{option} is not a list: nothing can be appended to it or subtracted from it")
        return words()(next((e.value for e in resource.entries(name, context) if e.name == option), None) or "")

    async def attempt() -> None:
        before = dict(resource.options(name, context))
        checked = resource.check(name, change(before, words_in), context)
        if not validate_only:
            await resource.set(name, checked, context)
            if checked != before:
                subject = f"{table.NAMES[kind]} {name}" if name else f"all {table.NAMES[kind]}s"
                context.log_change("Changed configs of %s: %s", subject, _changed(before, checked))

    resource.options(name, context)  # raises an error if the name is not accepted
    await context.broker.config_store.change(resource.path(name), attempt)


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return a description of the changed configs for the log, without the values of secrets."""
    return ", ".join(
        f"{key} removed" if key not in after else f"{key}={'[hidden]' if is_secret(key) else after[key]}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    )


def _changes(resource: AlterConfigsResource) -> Change:
    def change(present: Mapping[str, str], words_in: Words) -> Mapping[str, str | None]:
        names = [c.name for c in resource.configs]
        if len(set(names)) < len(names):
            raise InvalidRequestError("the request changes a config twice")
        options: dict[str, str | None] = dict(present)
        for one in resource.configs:
            _apply(one, options, words_in)
        return options

    return change


def _apply(one: AlterableConfig, options: dict[str, str | None], words_in: Words) -> None:
    if one.config_operation == DELETE:
        options.pop(one.name, None)
    elif one.config_operation == SET:
        options[one.name] = one.value
    elif one.config_operation in (APPEND, SUBTRACT):
        have = list(words_in(one.name))
        operand = words()(one.value or "")
        if one.config_operation == APPEND:
            have += [w for w in operand if w not in have]
        else:
            have = [w for w in have if w not in operand]
        options[one.name] = ",".join(have)
    else:
        raise InvalidRequestError(f"unknown operation {one.config_operation} on {one.name}")

"""IncrementalAlterConfigs: set, unset, or change lists in the options of topics. Served in all versions.

Left out on purpose: options of brokers, which are read once, at the start.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from ottla.broker import topic_creation
from ottla.broker.services import Call
from ottla.cluster.metadata import TopicImage
from ottla.config.options import words
from ottla.errors import InvalidConfigError, InvalidRequestError, KafkaError, UnknownTopicOrPartitionError, code_of
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TOPIC = 2
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
LISTS = frozenset({"cleanup.policy"})


def handle(request: IncrementalAlterConfigsRequest, call: Call) -> Awaitable[IncrementalAlterConfigsResponse]:
    """Change each resource; one that fails does not stop the others."""
    return _alter_all(request, call)


async def _alter_all(request: IncrementalAlterConfigsRequest, call: Call) -> IncrementalAlterConfigsResponse:
    answers = []
    for resource in request.resources:
        answer = AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        try:
            await alter(resource.resource_type, resource.resource_name, _changes(resource), request.validate_only, call)
        except KafkaError as error:
            answer.error_code, answer.error_message = code_of(error), error.message
        answers.append(answer)
    return IncrementalAlterConfigsResponse(responses=answers)


Change = Callable[[TopicImage], Mapping[str, str | None]]
"""The options that a topic is to have, from the topic as it is."""


async def alter(kind: int, name: str, change: Change, validate_only: bool, call: Call) -> None:
    """Give a topic the options that `change` makes of its present ones."""
    if kind != TOPIC:
        raise InvalidRequestError(f"options of resource type {kind} cannot be changed while the broker runs")
    topic = call.services.image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"Topic '{name}' does not exist.")
    checked = topic_creation.check_options(change(topic))
    if not validate_only:
        await call.services.controller.set_topic_options(name, checked)


def _changes(resource: AlterConfigsResource) -> Change:
    def change(topic: TopicImage) -> Mapping[str, str | None]:
        names = [c.name for c in resource.configs]
        if len(set(names)) < len(names):
            raise InvalidRequestError("an option is changed twice in one request")
        options: dict[str, str | None] = dict(topic.options)
        for one in resource.configs:
            _apply(one, options)
        return options

    return change


def _apply(one: AlterableConfig, options: dict[str, str | None]) -> None:
    if one.config_operation == DELETE:
        options.pop(one.name, None)
    elif one.config_operation == SET:
        options[one.name] = one.value
    elif one.config_operation in (APPEND, SUBTRACT):
        if one.name not in LISTS:
            raise InvalidConfigError(f"{one.name} is not a list; nothing can be appended to it or taken from it")
        have = list(words()(options.get(one.name) or ""))
        given = words()(one.value or "")
        if one.config_operation == APPEND:
            have += [w for w in given if w not in have]
        else:
            have = [w for w in have if w not in given]
        options[one.name] = ",".join(have)
    else:
        raise InvalidRequestError(f"operation {one.config_operation} on {one.name} is not known")

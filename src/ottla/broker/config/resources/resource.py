"""The interface of config resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ottla.broker.config.config_entries import Entry
from ottla.broker.request_context import RequestContext
from ottla.security.acl import ResourceType


class Resource(Protocol):
    """One type of config resource.

    `entries` and `options` raise a KafkaError if the resource name is not accepted, `check` if a config is not.
    """

    ruled_as: ResourceType
    """The resource type whose ACLs authorize access to its configs: its own, or the cluster."""
    lists: frozenset[str]
    """The list configs whose items can be appended and subtracted."""

    def path(self, name: str) -> str | None:
        """Return the path of a resource's configs below `/config`; None if they are not stored."""
        ...

    def names(self, context: RequestContext) -> Iterable[str]:
        """Return the names that ListConfigResources lists for the type: those of all resources, but for groups only of
        those with configs.
        """
        ...

    def entries(self, name: str, context: RequestContext) -> Iterable[Entry]:
        """Return the configs of a resource with their values."""
        ...

    def options(self, name: str, context: RequestContext) -> Mapping[str, str]:
        """Return the configs that are set on a resource now."""
        ...

    def check(self, name: str, options: Mapping[str, str | None], context: RequestContext) -> dict[str, str]:
        """Return the configs to set, after validating them."""
        ...

    async def set(self, name: str, options: Mapping[str, str], context: RequestContext) -> None:
        """Replace the configs of a resource with these, which `check` has returned."""
        ...

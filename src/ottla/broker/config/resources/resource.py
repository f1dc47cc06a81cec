"""What every type of config resource can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ottla.broker.config.config_entries import Entry
from ottla.broker.request_context import RequestContext
from ottla.security.acl import ResourceType


class Resource(Protocol):
    """One type of resource. Every method raises the KafkaError that tells what is wrong with a name or an option."""

    ruled_as: ResourceType
    """What rules of access name that are about its options: itself, or the cluster."""
    lists: frozenset[str]
    """Options that are lists: words can be appended and taken out."""

    def path(self, name: str) -> str | None:
        """Where its options are kept below `/config`; None where they are not."""
        ...

    def names(self, context: RequestContext) -> Iterable[str]:
        """The resources there are, for ListConfigResources."""
        ...

    def entries(self, name: str, context: RequestContext) -> Iterable[Entry]:
        """All options with their values."""
        ...

    def options(self, name: str, context: RequestContext) -> Mapping[str, str]:
        """What is set now."""
        ...

    def check(self, name: str, options: Mapping[str, str | None], context: RequestContext) -> dict[str, str]:
        """The options, if all of them may be set so."""
        ...

    async def set(self, name: str, options: Mapping[str, str], context: RequestContext) -> None:
        """Have just these checked options from now on."""
        ...

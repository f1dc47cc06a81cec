"""ACLs in the metadata store, as Kafka's AclAuthorizer keeps them: a znode per resource, or per prefix of names.

The broker that receives a change writes the znode and a change notification, like Kafka's brokers and tools. All
brokers then read the ACLs of that resource again. A broker that may have missed notifications reads all ACLs.

If a znode cannot be parsed, access to its resource is denied to all but super users, because its ACLs might deny it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from ottla.cluster.image import store_reader
from ottla.cluster.store import znodes
from ottla.cluster.store.change_notifications import ChangeReader
from ottla.cluster.store.metadata_store import (
    MAX_NODE_BYTES,
    BadVersionError,
    Create,
    Delete,
    MetadataStore,
    MetadataStoreError,
    NodeExistsError,
    NoNodeError,
    Operation,
    Set,
    UnreadableNodeError,
    ZNode,
)
from ottla.errors import InvalidRequestError, KafkaError
from ottla.model import ACLOperation
from ottla.security.acl import ACL, WILDCARD, ACLFilter, ACLPermissionType, ResourcePattern, ResourcePatternFilter

log = logging.getLogger("ottla.cluster")

ATTEMPTS: Final = 10
"""Maximum number of attempts to write a znode that other brokers change at the same time, as in Kafka."""
RETRY_SECONDS: Final = 0.1
MAX_CONCURRENT: Final = 100
"""Maximum number of znodes that are changed at the same time."""

Listener = Callable[[Collection[ACL]], None]
ACLs = frozenset[ACL]


class AclStore:
    """The ACLs that this broker has read. Not thread-safe: event loop only."""

    def __init__(
        self, store: MetadataStore, listener: Listener, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """`listener` is called with all ACLs after changes, including a denial for each unreadable znode."""
        self._store = store
        self._listener = listener
        self._acls: dict[ResourcePattern, ACLs] = {}
        self._unreadable: set[ResourcePattern] = set()
        self._is_published = True
        """Whether the listener has been called since the last change."""
        self._changes = ChangeReader(
            "ACLs", store, list(znodes.ACL_CHANGES.values()), self._apply_notifications, monotonic
        )

    async def start(self) -> None:
        """Create missing znodes, read all ACLs, and apply changes from now on."""
        await store_reader.create_persistent_nodes(self._store, znodes.ACL_NODES)
        await self._changes.start()

    async def close(self) -> None:
        await self._changes.close()

    async def refresh(self) -> None:
        """Read recent changes by other brokers.

        If the store fails or does not respond in time, log a warning and keep the last known ACLs.
        """
        await self._changes.refresh()

    def matching(self, acl_filter: ACLFilter) -> list[ACL]:
        """Return the ACLs that match, sorted by resource."""
        resources = ResourcePatternFilter(*acl_filter.resource_pattern)
        matching = (acls for pattern, acls in self._acls.items() if resources.matches(pattern))
        return sorted((acl for acls in matching for acl in acls if acl_filter.matches(acl)), key=_by_resource)

    async def add(self, acls: Sequence[ACL]) -> list[KafkaError | None]:
        """Add validated ACLs. Return the error of each, or None; adding an existing ACL is not an error."""
        added: dict[ResourcePattern, set[ACL]] = {}
        for acl in acls:
            added.setdefault(acl.resource_pattern, set()).add(acl)
        async with self._changes.lock:
            outcomes = await self._change_each(added, lambda pattern, existing: existing | added[pattern])
        return [outcomes[acl.resource_pattern][1] for acl in acls]

    async def remove(self, filters: Sequence[ACLFilter]) -> list[list[tuple[ACL, KafkaError | None]]]:
        """Remove the ACLs that match any filter.

        Return, for each filter, the matching ACLs: each with None if it was removed, else with the error. Raises
        KafkaError if the changes by other brokers cannot be read first.
        """
        await self._changes.read()
        async with self._changes.lock:
            resources = [await self._resources(acl_filter) for acl_filter in filters]
            filters_of: dict[ResourcePattern, list[ACLFilter]] = {}
            for acl_filter, patterns in zip(filters, resources, strict=True):
                for pattern in patterns:
                    filters_of.setdefault(pattern, []).append(acl_filter)

            def without(pattern: ResourcePattern, acls: ACLs) -> ACLs:
                return frozenset(acl for acl in acls if not any(f.matches(acl) for f in filters_of[pattern]))

            outcomes = await self._change_each(filters_of, without)
        return [
            [
                (acl, outcomes[pattern][1])
                for pattern in patterns
                for acl in sorted(outcomes[pattern][0])
                if acl_filter.matches(acl)
            ]
            for acl_filter, patterns in zip(filters, resources, strict=True)
        ]

    async def _resources(self, acl_filter: ACLFilter) -> list[ResourcePattern]:
        """Return the resources that may have matching ACLs."""
        resources = ResourcePatternFilter(*acl_filter.resource_pattern)
        resource_type, name, pattern_type = resources
        if name is not None and resource_type in znodes.ACL_KINDS and pattern_type in znodes.ACLS:
            exact = ResourcePattern(resource_type, name, pattern_type)
            return [exact] if exact in self._acls else []
        await asyncio.sleep(0)  # each of many filters scans every resource: let other requests run in between
        return sorted(pattern for pattern in self._acls if resources.matches(pattern))

    # Changes by this broker

    async def _change_each(
        self, patterns: Iterable[ResourcePattern], change: Callable[[ResourcePattern, ACLs], ACLs]
    ) -> dict[ResourcePattern, tuple[ACLs, KafkaError | None]]:
        """Replace the ACLs of each resource with those that `change` returns for the current ones.

        Return for each resource the ACLs that the change removes, or would have removed, and its error; None if it
        succeeded.
        """
        semaphore = asyncio.Semaphore(MAX_CONCURRENT)

        async def one(pattern: ResourcePattern) -> tuple[ACLs, KafkaError | None]:
            cached = self._acls.get(pattern, frozenset())
            removed = cached - change(pattern, cached)  # if the znode cannot be read

            def changed(acls: ACLs) -> ACLs:
                nonlocal removed
                after = change(pattern, acls)
                removed = acls - after
                return after

            async with semaphore:
                try:
                    await self._change(pattern, changed)
                except KafkaError as error:
                    log.warning(
                        "Cannot change the ACLs at %s; the client gets this error for those it wanted to change: %s",
                        znodes.acls(pattern),
                        error,
                    )
                    return removed, error
            return removed, None

        try:
            async with asyncio.TaskGroup() as changes:
                tasks = {pattern: changes.create_task(one(pattern)) for pattern in patterns}
        finally:
            self._publish()
        return {pattern: task.result() for pattern, task in tasks.items()}

    async def _change(self, pattern: ResourcePattern, change: Callable[[ACLs], ACLs]) -> None:
        """Replace a resource's ACLs with those that `change` returns for the current ones.

        If other brokers change them meanwhile, make at most ATTEMPTS attempts.
        """
        path = znodes.acls(pattern)
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(RETRY_SECONDS)
            node = await self._store.get(path)
            before = frozenset() if node is None else znodes.acls_of(pattern, node.value)
            after = change(before)
            if after != before:
                notification = f"{znodes.ACL_CHANGES[pattern.pattern_type]}/acl_changes_"
                writes = [_write(path, node, after), Create(notification, znodes.acl_change(pattern), sequence=True)]
                try:
                    await self._store.multi(writes)
                except (BadVersionError, NodeExistsError):
                    continue  # another broker was faster
                except NoNodeError:  # the same, or this is the first ACL of the resource type
                    await store_reader.create_persistent_nodes(self._store, [path.rpartition("/")[0]])
                    continue
                log.debug("ACLs at %s: %d added, %d removed", path, len(after - before), len(before - after))
            self._apply(pattern, after)
            return
        raise MetadataStoreError(f"{path} was changed by other brokers {ATTEMPTS} times in a row; try again")

    def _apply(self, pattern: ResourcePattern, acls: ACLs) -> None:
        if self._acls.get(pattern, frozenset()) == acls and pattern not in self._unreadable:
            return
        self._unreadable.discard(pattern)
        if acls:
            self._acls[pattern] = acls
        else:
            self._acls.pop(pattern, None)
        self._is_published = False

    def _apply_node(self, pattern: ResourcePattern, node: ZNode | None) -> None:
        try:
            self._apply(pattern, frozenset() if node is None else znodes.acls_of(pattern, node.value))
        except UnreadableNodeError as error:
            log.error(
                "Cannot parse ACLs: %s. Access to the resource is denied to everyone but super users; delete the "
                "znode, and add its ACLs again.",
                error,
            )
            self._apply(pattern, frozenset())
            self._unreadable.add(pattern)
            self._is_published = False

    def _publish(self) -> None:
        if not self._is_published:
            self._is_published = True
            self._listener(
                [acl for acls in self._acls.values() for acl in acls] + list(map(_deny_all, self._unreadable))
            )

    # Changes by other brokers and tools

    async def _apply_notifications(self, notifications: list[str]) -> None:
        nodes = await self._changed_nodes(notifications)
        if nodes is None:
            nodes = await self._all_nodes()
            for pattern in self._acls.keys() | self._unreadable:
                nodes.setdefault(pattern, None)
        for pattern, node in nodes.items():
            self._apply_node(pattern, node)
        self._publish()

    async def _changed_nodes(self, notifications: Sequence[str]) -> dict[ResourcePattern, ZNode | None] | None:
        """Return the ACL znodes that notifications name, by resource; None for a znode that was deleted.

        Return None instead of the dict if notifications may have been missed, or if one is deleted or malformed.
        """
        if self._changes.may_have_missed:
            return None
        nodes = await store_reader.get_all(self._store, notifications)
        patterns = {None if node is None else znodes.changed_acls(node.value) for node in nodes}
        return await self._nodes([p for p in patterns if p is not None]) if None not in patterns else None

    async def _all_nodes(self) -> dict[ResourcePattern, ZNode | None]:
        patterns = []
        for pattern_type, parent in znodes.ACLS.items():
            for resource_type, name in znodes.ACL_KINDS.items():
                names = await self._store.children(f"{parent}/{name}")
                patterns += [ResourcePattern(resource_type, resource, pattern_type) for resource in names]
        return await self._nodes(patterns)

    async def _nodes(self, patterns: Sequence[ResourcePattern]) -> dict[ResourcePattern, ZNode | None]:
        nodes = await store_reader.get_all(self._store, list(map(znodes.acls, patterns)))
        return dict(zip(patterns, nodes, strict=True))


def _write(path: str, node: ZNode | None, acls: ACLs) -> Operation:
    """Return the operation that writes ACLs, or deletes the znode if there are none.

    The operation fails if the znode has changed since `node` was read. Raises InvalidRequestError if the ACLs are too
    large for a znode.
    """
    if node is not None and not acls:
        return Delete(path, node.version)
    value = znodes.acls_value(acls)
    if len(value) > MAX_NODE_BYTES:
        raise InvalidRequestError(
            f"{path} cannot hold {len(acls)} ACLs; replace some by ACLs with prefixed patterns, or for User:*"
        )
    return Create(path, value) if node is None else Set(path, value, node.version)


def _by_resource(acl: ACL) -> tuple[ResourcePattern, ACL]:
    return acl.resource_pattern, acl


def _deny_all(pattern: ResourcePattern) -> ACL:
    return ACL(f"User:{WILDCARD}", WILDCARD, ACLOperation.ALL, ACLPermissionType.DENY, pattern)

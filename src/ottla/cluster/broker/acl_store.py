"""Access rules in the store, as Kafka's AclAuthorizer keeps them: a node per resource, or per beginning of names.

Whichever broker is asked writes; all follow. With a change goes a note, as Kafka's brokers and tools leave them, and
what it is about is read again. Where it cannot be known what has changed, everything is read.

Rules that cannot be read forbid everything that they are about: which of them would have forbidden it is not known.
Loop thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from ottla.cluster.broker.config_store import NOTE_SECONDS, PAUSE_SECONDS, REFRESH_SECONDS
from ottla.cluster.image import store_reader
from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import (
    BadVersionError,
    Create,
    Delete,
    MetadataStore,
    MetadataStoreError,
    Node,
    NodeExistsError,
    NoNodeError,
    Operation,
    Set,
    UnreadableNodeError,
)
from ottla.errors import InvalidRequestError, KafkaError
from ottla.model import ACLOperation
from ottla.security.acl import ACL, WILDCARD, ACLFilter, ACLPermissionType, ResourcePattern, ResourcePatternFilter

log = logging.getLogger("ottla.cluster")

TRIES: Final = 10
"""How often a change is made anew because another broker was faster. Kafka's, too."""
TRY_SECONDS: Final = 0.1
AT_ONCE: Final = 100
"""Nodes that are changed at the same time."""
MAX_NODE_BYTES: Final = 1_000_000
"""What one node may hold: ZooKeeper ends the connection on which more comes."""

Listener = Callable[[Collection[ACL]], None]
Rules = frozenset[ACL]


class AclStore:
    """The rules that this broker knows of."""

    def __init__(
        self, store: MetadataStore, listener: Listener, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """`listener` is told all rules whenever they are others."""
        self._store = store
        self._listener = listener
        self._monotonic = monotonic
        self._rules: dict[ResourcePattern, Rules] = {}
        self._unreadable: set[ResourcePattern] = set()
        self._is_told = True
        """Whether the listener knows of all that is here."""
        self._notes: dict[str, float] = {}
        """Those that were heard of, and when."""
        self._heard: float | None = None
        """When notes were looked for last."""
        self._changed = asyncio.Event()
        self._lock = asyncio.Lock()
        """Held from reading until what was read is taken: nothing older is taken after something newer."""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Make the nodes that are missing, read all rules, and follow what changes from now on."""
        await store_reader.make_persistent_nodes(self._store, znodes.ACL_NODES)
        await self._hear()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Follow no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def refresh(self) -> None:
        """Hear what another broker was told a moment ago. Not where the store is away."""
        try:
            async with asyncio.timeout(REFRESH_SECONDS):
                await self._hear()
        except (TimeoutError, KafkaError) as error:
            log.warning("the access rules of now cannot be read: %s", error)

    def matching(self, wanted: ACLFilter) -> list[ACL]:
        """The rules that are looked for, sorted by their resources."""
        resources = ResourcePatternFilter(*wanted.resource_pattern)
        found = (acls for pattern, acls in self._rules.items() if resources.matches(pattern))
        return sorted((acl for acls in found for acl in acls if wanted.matches(acl)), key=_by_resource)

    async def add(self, acls: Sequence[ACL]) -> list[KafkaError | None]:
        """Add valid rules; what went wrong with each. One that is there already is no error."""
        wanted: dict[ResourcePattern, set[ACL]] = {}
        for acl in acls:
            wanted.setdefault(acl.resource_pattern, set()).add(acl)
        async with self._lock:
            outcomes = await self._change_each(wanted, lambda pattern, rules: rules | wanted[pattern])
        found = {pattern: error for pattern, (_, error) in outcomes.items()}
        return [found[acl.resource_pattern] for acl in acls]

    async def remove(self, filters: Sequence[ACLFilter]) -> list[list[tuple[ACL, KafkaError | None]]]:
        """Remove the rules that filters look for; which those were, for each filter, and what went wrong with them."""
        await self._hear()
        async with self._lock:
            resources = [await self._resources(wanted) for wanted in filters]
            about: dict[ResourcePattern, list[ACLFilter]] = {}
            for wanted, patterns in zip(filters, resources, strict=True):
                for pattern in patterns:
                    about.setdefault(pattern, []).append(wanted)

            def without(pattern: ResourcePattern, rules: Rules) -> Rules:
                return frozenset(acl for acl in rules if not any(f.matches(acl) for f in about[pattern]))

            outcomes = await self._change_each(about, without)
        return [
            [
                (acl, outcomes[pattern][1])
                for pattern in patterns
                for acl in sorted(outcomes[pattern][0])
                if wanted.matches(acl)
            ]
            for wanted, patterns in zip(filters, resources, strict=True)
        ]

    async def _resources(self, wanted: ACLFilter) -> list[ResourcePattern]:
        """What a filter may find rules about."""
        resources = ResourcePatternFilter(*wanted.resource_pattern)
        kind, name, how = resources
        if name is not None and kind in znodes.ACL_KINDS and how in znodes.ACLS:
            exact = ResourcePattern(kind, name, how)
            return [exact] if exact in self._rules else []
        await asyncio.sleep(0)  # each of many filters looks at every resource: others have their turn in between
        return sorted(pattern for pattern in self._rules if resources.matches(pattern))

    # Changing

    async def _change_each(
        self, patterns: Iterable[ResourcePattern], change: Callable[[ResourcePattern, Rules], Rules]
    ) -> dict[ResourcePattern, tuple[Rules, KafkaError | None]]:
        """Change the rules about several resources: those that are gone from each, or would have, and what failed."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(pattern: ResourcePattern) -> tuple[Rules, KafkaError | None]:
            gone: Rules = frozenset()

            def noted(rules: Rules) -> Rules:
                nonlocal gone
                after = change(pattern, rules)
                gone = rules - after
                return after

            async with gate:
                try:
                    await self._change(pattern, noted)
                except KafkaError as error:
                    log.warning("access rules about %s cannot be changed: %s", znodes.acls(pattern), error)
                    return gone, error
            return gone, None

        try:
            async with asyncio.TaskGroup() as changes:
                tasks = {pattern: changes.create_task(one(pattern)) for pattern in patterns}
        finally:
            self._tell()
        return {pattern: task.result() for pattern, task in tasks.items()}

    async def _change(self, pattern: ResourcePattern, change: Callable[[Rules], Rules]) -> None:
        """Replace the rules about resources by what `change` makes of those of now, whichever broker wrote these."""
        path = znodes.acls(pattern)
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(TRY_SECONDS)
            node = await self._store.get(path)
            before = frozenset() if node is None else znodes.acls_of(pattern, node.value)
            after = change(before)
            if after != before:
                note = f"{znodes.ACL_CHANGES[pattern.pattern_type]}/acl_changes_"
                writes = [_write(path, node, after), Create(note, znodes.acl_change(pattern), sequence=True)]
                try:
                    await self._store.multi(writes)
                except (BadVersionError, NodeExistsError):
                    continue  # another broker was faster
                except NoNodeError:  # as before, or it is the first rule about this type of resources
                    await store_reader.make_persistent_nodes(self._store, [path.rpartition("/")[0]])
                    continue
                log.info("access rules about %s: %d added, %d removed", path, len(after - before), len(before - after))
            self._take(pattern, after)
            return
        raise MetadataStoreError(f"{path} is changed by others again and again")

    def _take(self, pattern: ResourcePattern, rules: Rules) -> None:
        """These are the rules about resources now."""
        if self._rules.get(pattern, frozenset()) == rules and pattern not in self._unreadable:
            return
        self._unreadable.discard(pattern)
        if rules:
            self._rules[pattern] = rules
        else:
            self._rules.pop(pattern, None)
        self._is_told = False

    def _take_node(self, pattern: ResourcePattern, node: Node | None) -> None:
        try:
            self._take(pattern, frozenset() if node is None else znodes.acls_of(pattern, node.value))
        except UnreadableNodeError as error:
            log.error("%s; none but super users may do anything with what they are about", error)
            self._take(pattern, frozenset())
            self._unreadable.add(pattern)
            self._is_told = False

    def _tell(self) -> None:
        """Tell the listener where there is something new."""
        if not self._is_told:
            self._is_told = True
            self._listener(
                [acl for acls in self._rules.values() for acl in acls] + list(map(_forbidding, self._unreadable))
            )

    # ControllerRequestHandler

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._hear()
            except KafkaError as error:
                log.warning("access rules cannot be followed yet: %s", error)
                asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._changed.set)
            except Exception:
                log.exception("access rules cannot be followed")

    async def _hear(self) -> None:
        """Take what others have changed since."""
        async with self._lock:
            now = self._monotonic()
            paths = [
                f"{parent}/{name}"
                for parent in znodes.ACL_CHANGES.values()
                for name in await self._store.children(parent, self._changed.set)
            ]
            found = await self._changed_nodes([path for path in paths if path not in self._notes], now)
            if found is None:
                found = await self._all_nodes()
                for gone in self._rules.keys() | self._unreadable:
                    found.setdefault(gone, None)
            for pattern, node in found.items():
                self._take_node(pattern, node)
            self._notes, self._heard = {path: self._notes.get(path, now) for path in paths}, now
            self._tell()
            for path, seen in self._notes.items():
                if now - seen > NOTE_SECONDS:
                    await self._forget(path)

    async def _changed_nodes(self, notes: Sequence[str], now: float) -> dict[ResourcePattern, Node | None] | None:
        """The nodes that notes tell of; None where there may have been more notes than these, or one is not understood.

        Notes are removed when they are old, so that who has not looked for so long has missed some.
        """
        if self._heard is None or now - self._heard > NOTE_SECONDS / 2:
            return None
        nodes = await store_reader.get_all(self._store, notes)
        patterns = {None if node is None else znodes.changed_acls(node.value) for node in nodes}
        return await self._nodes([p for p in patterns if p is not None]) if None not in patterns else None

    async def _all_nodes(self) -> dict[ResourcePattern, Node | None]:
        patterns = []
        for how, parent in znodes.ACLS.items():
            for kind, name in znodes.ACL_KINDS.items():
                names = await self._store.children(f"{parent}/{name}")
                patterns += [ResourcePattern(kind, resource, how) for resource in names]
        return await self._nodes(patterns)

    async def _nodes(self, patterns: Sequence[ResourcePattern]) -> dict[ResourcePattern, Node | None]:
        nodes = await store_reader.get_all(self._store, list(map(znodes.acls, patterns)))
        return dict(zip(patterns, nodes, strict=True))

    async def _forget(self, note: str) -> None:
        try:
            await self._store.multi([Delete(note)])
        except NoNodeError:
            pass  # another broker has


def _write(path: str, node: Node | None, rules: Rules) -> Operation:
    """The operation that has a node hold these rules, if it is still the one that was read; without rules it goes."""
    if node is not None and not rules:
        return Delete(path, node.version)
    value = znodes.acls_value(rules)
    if len(value) > MAX_NODE_BYTES:
        raise InvalidRequestError(f"{path} has no room for {len(rules)} rules; take fewer, with prefixes or User:*")
    return Create(path, value) if node is None else Set(path, value, node.version)


def _by_resource(acl: ACL) -> tuple[ResourcePattern, ACL]:
    return acl.resource_pattern, acl


def _forbidding(pattern: ResourcePattern) -> ACL:
    """A rule that forbids everybody everything."""
    return ACL(f"User:{WILDCARD}", WILDCARD, ACLOperation.ALL, ACLPermissionType.DENY, pattern)

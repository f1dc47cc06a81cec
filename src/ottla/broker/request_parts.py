"""Requests with many items are processed in parts, so that other clients do not wait for all of them.

Handlers are plain functions over all items of a request. `ApiEntry.parts` names the arrays whose items are independent
(`topics.partitions`, `resources`); a request with many items is split into requests with some of them each. These are
handled one after the other, other tasks may run in between, and their responses are merged. The size of a part follows
from the time that the previous one took. Equal items stay in one part and are reduced to two, which is enough for a
handler that rejects duplicates. Not thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

from ottla.protocol.message import Request, Response, Struct

PART_ITEMS: Final = 16
"""Number of items, at each level of a path, up to which a request is not split."""
MAX_PART_ITEMS: Final = 512
PART_SECONDS: Final = 0.005
"""Time in seconds that a part should take on the event loop."""
AT_ONCE: Final = 200
"""Number of items that are sorted into parts before other tasks may run."""
SHARED: Final = frozenset({"brokers", "node_endpoints"})
"""Names of arrays whose items may occur in the responses to several parts. The merged response has each item once."""

Handle = Callable[[Request[Any]], "Response | Awaitable[Response | None] | None"]
Chain = tuple[Any, ...]
"""The path to an array item: the items that contain it, then the item itself, such as (topic, partition)."""


def exceeding(request: Struct, paths: Sequence[str]) -> str | None:
    """Return the first of the paths with more than PART_ITEMS items at one of its levels; None if there is none."""
    for path in paths:
        first, *others = _names_of(path)
        items = getattr(request, first)
        if not items:
            continue
        if len(items) > PART_ITEMS:
            return path
        for name in others:
            items = [inner for item in items for inner in getattr(item, name) or ()]
            if len(items) > PART_ITEMS:
                return path
    return None


@functools.cache
def _names_of(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


async def handle_in_parts(handle: Handle, request: Request[Any], path: str, joined: int) -> Response | None:
    """Handle a request in parts, and return the merged response.

    Raises the handler's error. Parts that wait do so concurrently.

    `joined`: how many levels of the response's arrays are containers (topics of partitions), merged by name or id.
    """
    answers: list[Response | asyncio.Future[Response | None] | None] = []
    pace = _Pace()
    try:
        async for part in _parts(request, path.split("."), pace):
            began = time.perf_counter()
            answer = handle(part)
            pace.took(time.perf_counter() - began)
            answers.append(asyncio.ensure_future(answer) if isinstance(answer, Awaitable) else answer)
            await asyncio.sleep(0)
        return await _whole([await a if isinstance(a, asyncio.Future) else a for a in answers], joined)
    finally:
        for left in answers:
            if isinstance(left, asyncio.Future) and not left.done():
                left.cancel()


class _Pace:
    """Computes the number of items of the next part from the time that the previous one took."""

    def __init__(self) -> None:
        self.items = 1  # until the first part was timed

    def took(self, seconds: float) -> None:
        factor = min(4.0, PART_SECONDS / max(seconds, 1e-6))
        self.items = max(1, min(MAX_PART_ITEMS, int(self.items * factor)))


async def _parts(request: Request[Any], names: list[str], pace: _Pace) -> AsyncIterator[Request[Any]]:
    """Yield the parts of a request, as requests with some of its items each."""
    grouped: dict[Chain, list[Chain]] = {}
    for at, chain in enumerate(_chains(request, names)):
        twins = grouped.setdefault(_key(chain), [])
        if len(twins) < 2:
            twins.append(chain)
        if not at % AT_ONCE:
            await asyncio.sleep(0)
    part: list[Chain] = []
    for twins in grouped.values():
        part += twins
        if len(part) >= pace.items:
            yield _request(request, names, part)
            part = []
    if part:
        yield _request(request, names, part)


def _chains(item: Any, names: Sequence[str]) -> Iterator[Chain]:
    """Yield the chain of each item of the innermost array, and of each item without inner items."""
    for inner in getattr(item, names[0]) or ():
        if len(names) > 1 and getattr(inner, names[1]):
            for rest in _chains(inner, names[1:]):
                yield (inner, *rest)
        else:
            yield (inner,)


def _key(chain: Chain) -> Chain:
    """Return a key that is the same for equal items: their content, and the scalar fields of the items that contain
    them. Items with record batches are never equal.
    """
    *around, item = chain
    return *(_scalars(container) for container in around), _content(item)


def _scalars(item: Struct) -> Chain:
    return tuple(getattr(item, field.name) for field in item.FIELDS if field.kind not in ("array", "struct", "records"))


def _content(item: Any) -> Any:
    if isinstance(item, Struct):
        return tuple(_content(getattr(item, field.name)) for field in item.FIELDS)
    if isinstance(item, list):
        return tuple(map(_content, item))
    return id(item) if isinstance(item, memoryview) else item


def _request(request: Request[Any], names: Sequence[str], part: Sequence[Chain]) -> Request[Any]:
    """Return a copy of the request with the items of `part` only."""
    made = copy.copy(request)
    setattr(made, names[0], [])
    open_items: list[tuple[Any, Any]] = []  # of the previous chain: each container, and its copy in this part
    for chain in part:
        depth = 0
        while depth < min(len(open_items), len(chain) - 1) and open_items[depth][0] is chain[depth]:
            depth += 1
        del open_items[depth:]
        for item, name in zip(chain[depth:], names[depth:], strict=False):
            target = getattr(open_items[-1][1] if open_items else made, name)
            is_container = len(open_items) < len(chain) - 1
            mine = copy.copy(item) if is_container else item
            if is_container:
                setattr(mine, names[len(open_items) + 1], [])
                open_items.append((item, mine))
            target.append(mine)
    return made


async def _whole(answers: Sequence[Response | None], joined: int) -> Response | None:
    """Return one response with the content of the responses to all parts; None if there are none."""
    responses = [answer for answer in answers if answer is not None]
    if not responses:
        return None
    merged = Merged(responses[0], joined)
    for response in responses[1:]:
        merged.add(response)
        await asyncio.sleep(0)
    return responses[0]


class Merged:
    """A response to which the responses of other parts are added."""

    def __init__(self, whole: Response, joined: int) -> None:
        self._whole = whole
        self._joined = joined
        self._containers: dict[Chain, Struct] = {}
        for field in whole.FIELDS:
            if field.kind == "array" and joined and field.name not in SHARED:
                self._note(field.name, getattr(whole, field.name) or (), (), joined)

    def add(self, response: Response) -> None:
        """Add the response of another part."""
        whole: Any = self._whole
        for field in whole.FIELDS:
            mine, theirs = getattr(whole, field.name), getattr(response, field.name)
            if field.name == "throttle_time_ms":
                whole.throttle_time_ms = max(mine, theirs)
            elif field.kind == "array":
                if mine is None or not theirs:
                    continue
                if field.name in SHARED:
                    mine += [item for item in theirs if item not in mine]
                else:
                    self._join(field.name, mine, theirs, (), self._joined)
            elif field.name == "error_code" and not mine:
                whole.error_code = theirs

    def _join(self, name: str, mine: list[Any], theirs: list[Any], around: Chain, levels: int) -> None:
        if not levels or not isinstance(theirs[0], Struct):
            mine += theirs
            return
        for item in theirs:
            key = (*around, name, _names(item))
            container = self._containers.get(key)
            if container is None:
                mine.append(item)
                self._note(name, (item,), around, levels)
                continue
            for field in item.FIELDS:
                held, added = getattr(container, field.name), getattr(item, field.name)
                if field.kind == "array" and held is not None and added:
                    self._join(field.name, held, added, key, levels - 1)

    def _note(self, name: str, items: Sequence[Any], around: Chain, levels: int) -> None:
        for item in items:
            if not isinstance(item, Struct):
                return
            key = (*around, name, _names(item))
            self._containers.setdefault(key, item)
            for field in item.FIELDS if levels > 1 else ():
                if field.kind == "array":
                    self._note(field.name, getattr(item, field.name) or (), key, levels - 1)


def _names(item: Struct) -> Chain:
    """Return the values that identify a container in a response: its strings and UUIDs."""
    return tuple(getattr(item, field.name) for field in item.FIELDS if field.kind in ("string", "uuid"))

"""The pages of a broker's HTTP listener. Each has a row in `PAGES`."""

from __future__ import annotations

import json
import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.broker.monitoring.exposition import TextFormat, lines
from ottla.broker.monitoring.observed_node import ObservedNode
from ottla.broker.monitoring.scrape import MonitoredBroker, Pace, Scrape, is_under_replicated
from ottla.version import __version__

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
BLOCK_BYTES: Final = 32 * 1024
CONSOLE: Final = "ottla console --bootstrap-server HOST:PORT"
RUNNING: Final = 3
"""Kafka's BrokerState RUNNING."""

Headers = tuple[tuple[str, str], ...]


class HttpRequest(NamedTuple):
    """A GET or HEAD request: the broker, the parameters of the query, and the headers by name in lower case."""

    node: ObservedNode
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]


class Page(NamedTuple):
    """A response. If the body is an iterator of blocks, each block is sent when it is created."""

    status: int
    content_type: str
    body: bytes | AsyncIterator[bytes]
    headers: Headers = ()


class PageEntry(NamedTuple):
    """The page that a path serves."""

    render: Callable[[HttpRequest], Awaitable[Page]]
    is_protected: bool
    """Whether a password is required, if any are configured. Health probes send none."""


def plain(status: int, text: str, headers: Headers = ()) -> Page:
    """Return a page of text."""
    return Page(status, TEXT, text.encode(), headers)


async def metrics(request: HttpRequest) -> Page:
    """Return all metrics, or those that `?name[]=…` names, in the format that the client accepts.

    Returns 503 while the broker starts, until its logs are loaded.
    """
    broker = request.node.monitored
    if broker is None:
        return plain(503, f"{_with_stage('the broker is starting', request.node)}\n")
    scrape = Scrape(broker)
    await scrape.prepare()
    text_format = TextFormat.accepted(request.headers.get("accept", ""))
    return Page(200, text_format.value, _blocks(scrape, text_format, request.query.get("name[]", ())))


async def _blocks(scrape: Scrape, text_format: TextFormat, names: Collection[str]) -> AsyncIterator[bytes]:
    """Yield the metrics' text in blocks. Requests of the broker's clients are processed in between."""
    pace, block, nbytes = Pace(), list[str](), 0
    for line in lines(scrape, text_format, names):
        block.append(line)
        nbytes += len(line)
        if nbytes >= BLOCK_BYTES:
            yield "".join(block).encode()
            block, nbytes = [], 0
        if pace.is_over:
            await pace.rest()
    if block:
        yield "".join(block).encode()


async def health(request: HttpRequest) -> Page:
    """Return 200 while the broker can continue to run, else 503 with the reason."""
    failure = request.node.failure
    return plain(503, f"{failure}\n") if failure else plain(200, "ok\n")


async def readiness(request: HttpRequest) -> Page:
    """Return 200 if the broker serves clients: it is running, is registered, can use its metadata store, and all log
    directories are online; otherwise 503 with the reasons.

    With `?isr=1` it must also lead no under-replicated partition. In a rolling upgrade, wait for this before
    the next broker is restarted.
    """
    broker = request.node.monitored
    problems = (
        [_with_stage("the broker is starting", request.node)]
        if broker is None
        else await _problems(request.node, broker, "1" in request.query.get("isr", ()))
    )
    problems += filter(None, (request.node.waits_for, request.node.failure))
    return plain(503, "".join(f"{problem}\n" for problem in problems)) if problems else plain(200, "ready\n")


def _with_stage(state: str, node: ObservedNode) -> str:
    """Return the state of a broker that starts or stops, with what it is doing."""
    return f"{state}: {node.stage}" if node.stage else state


async def _problems(node: ObservedNode, broker: MonitoredBroker, checks_isr: bool) -> list[str]:
    problems, context, state = [], broker.context, broker.state()
    if state != RUNNING:
        problems.append(_with_stage("the broker is starting" if state < RUNNING else "the broker is stopping", node))
    if context.broker_id not in context.image.brokers:
        problems.append("the broker is not registered")
    for path, reason in context.partitions.offline_dirs.items():
        problems.append(f"the log directory {path} is offline: {reason}")
    if checks_isr:
        pace, number = Pace(), 0
        for partition in list(context.partitions):
            number += is_under_replicated(partition)
            if pace.is_over:
                await pace.rest()
        if number:
            problems.append(f"{number} partitions are under-replicated")
    return problems


async def version(request: HttpRequest) -> Page:
    """Return the versions of Ottla and Python and, once the logs are loaded, the ids of broker and cluster."""
    broker = request.node.monitored
    facts: dict[str, object] = {"version": __version__, "python": platform.python_version()}
    if broker is not None:
        facts |= {"broker_id": broker.context.broker_id, "cluster_id": broker.context.image.cluster_id}
    return Page(200, JSON, json.dumps(facts).encode() + b"\n")


async def index(_: HttpRequest) -> Page:
    """Return the list of pages, and the command that serves the console."""
    pages = "".join(f"{path}\n" for path in PAGES if path != "/")
    return plain(200, f"{pages}\nA console in the browser: {CONSOLE}\n")


PAGES: Final[dict[str, PageEntry]] = {
    "/": PageEntry(index, is_protected=True),
    "/metrics": PageEntry(metrics, is_protected=True),
    "/healthz": PageEntry(health, is_protected=False),
    "/readyz": PageEntry(readiness, is_protected=False),
    "/version": PageEntry(version, is_protected=True),
}

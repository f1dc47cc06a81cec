"""`ottla top`: brokers, topics by rate and groups by lag, by default refreshed every second.

`--once` prints them once and exits, with --json as JSON. Rates are measured over at least --interval seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.cli.framework.command import Command, CommandFailedError
from ottla.cli.framework.connection import client_options, connection, without_serialization
from ottla.cli.framework.options import JSON, Flag, Option
from ottla.errors import ConfigurationError, KafkaError

if TYPE_CHECKING:
    from rich.console import Group

    from ottla_console.cluster.collector import Collector

POLL_SECONDS = 0.05
ONCE_SHARE = 1.0
LIVE_SHARE = 0.2
"""The maximum fraction of the time that refreshing a snapshot may take."""
FIRST_SECONDS = 10.0
"""Maximum time in seconds to wait for the snapshots of the cluster, and also for the first rates."""


def run(args: argparse.Namespace) -> int:
    """Show the cluster until Ctrl+C, or once with --once."""
    if args.json and not args.once:
        raise ConfigurationError("--json requires --once")
    from ottla_console.cluster.collector import Collector

    share = ONCE_SHARE if args.once else LIVE_SHARE
    collector = Collector(without_serialization(client_options(args)), args.interval, share)
    collector.start()
    try:
        if args.once:
            return asyncio.run(_once(collector, args))
        return asyncio.run(_live(collector, args))
    finally:
        collector.stop()


async def _view(collector: Collector, rows: int) -> dict[str, Any]:
    """Return the data to show, as it is printed with --json. `rows` is the maximum number of topics and of groups; 0
    for all.
    """
    from ottla_console.cluster.collector import TOTAL

    async with asyncio.timeout(FIRST_SECONDS):
        snapshot, groups = await collector.cluster(), await collector.groups()
    rated = sorted(((collector.rates.latest(row.name) or 0.0, row) for row in snapshot.topics), key=_by_rate)
    lagging = sorted(groups.values(), key=lambda row: (-(row.lag or 0), row.group_id))
    return {
        "time": time.time(),
        "cluster_id": snapshot.cluster_id,
        "controller": snapshot.controller_id,
        "error": str(collector.error) if collector.error else None,
        "partitions": snapshot.partitions,
        "under_replicated": snapshot.under_replicated,
        "offline": snapshot.offline,
        "messages_per_second": collector.rates.latest(TOTAL),
        "brokers": [broker._asdict() for broker in snapshot.brokers],
        "brokers_down": [broker.id for broker in snapshot.down],
        "topics": [
            {"name": row.name, "partitions": row.partitions, "messages_per_second": round(rate, 1)}
            for rate, row in rated[: rows or None]
        ],
        "groups": [{"id": row.group_id, "state": row.state, "lag": row.lag} for row in lagging[: rows or None]],
    }


def _by_rate(entry: tuple[float, Any]) -> tuple[float, str]:
    rate, row = entry
    return -rate, row.name


async def _once(collector: Collector, args: argparse.Namespace) -> int:
    try:
        await _view(collector, args.rows)
        end = time.monotonic() + FIRST_SECONDS
        while not collector.rates.count and time.monotonic() < end:  # noqa: ASYNC110 - another thread samples
            await asyncio.sleep(POLL_SECONDS)
        view = await _view(collector, args.rows)
    except (KafkaError, TimeoutError) as error:
        raise CommandFailedError(f"ottla top: {error or 'the cluster does not respond'}") from None
    if args.json:
        print(json.dumps(view))
    else:
        _rich().Console().print(_layout(view))
    return 0


async def _live(collector: Collector, args: argparse.Namespace) -> int:
    rich = _rich()
    from rich.live import Live

    console = rich.Console()
    rows = args.rows or max(5, (console.height - 14) // 2)
    try:
        view = await _view(collector, rows)
    except (KafkaError, TimeoutError) as error:
        raise CommandFailedError(f"ottla top: {error or 'the cluster does not respond'}") from None
    with Live(_layout(view), console=console, screen=console.is_terminal, auto_refresh=False) as live:
        while True:
            await asyncio.sleep(args.interval)
            live.update(_layout(await _view(collector, rows)), refresh=True)


def _layout(view: dict[str, Any]) -> Group:
    from rich.console import Group
    from rich.text import Text

    state = Text(f"{view['partitions']:,} partitions", "dim")
    for name in ("offline", "under_replicated"):
        if view[name]:
            style = "bold red" if name == "offline" else "bold yellow"
            state.append(f"  {view[name]:,} {name.replace('_', '-')}", style)
    for broker in view["brokers_down"]:
        state.append(f"  broker {broker} is down", "bold red")
    rate = view["messages_per_second"]
    head = Text.assemble(
        ("ottla top  ", "bold cyan"),
        time.strftime("%H:%M:%S  ", time.localtime(view["time"])),
        (f"{rate or 0:,.0f} messages/s  ", "bold"),
        state,
    )
    if view["error"]:
        head.append(f"\n{view['error']}", "bold red")
    brokers = [
        (f"{b['id']}{' *' if b['is_controller'] else ''}", f"{b['host']}:{b['port']}", *map(_number, _shares(b)))
        for b in view["brokers"]
    ]
    topics = [(t["name"], _number(t["partitions"]), f"{t['messages_per_second']:,.1f}") for t in view["topics"]]
    groups = [(g["id"], g["state"], _number(g["lag"])) for g in view["groups"]]
    return Group(
        head,
        _table(("Broker", "Address", ">Leaders", ">Replicas", ">Out of sync"), brokers),
        _table(("Topic", ">Partitions", ">Messages/s"), topics),
        _table(("Group", "State", ">Lag"), groups),
    )


def _shares(broker: dict[str, Any]) -> tuple[int, int, int]:
    return broker["leaders"], broker["replicas"], broker["out_of_sync"]


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, expand=True, header_style="dim", padding=(0, 2, 0, 0), title_justify="left")
    for entry in header:
        name = entry.lstrip(">")
        is_number = name != entry
        # only text columns become narrower: a long name is truncated, but numbers and their headers are not
        table.add_column(name, justify="right" if is_number else "left", no_wrap=is_number, overflow="ellipsis")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _rich() -> Any:
    try:
        import rich.console
    except ModuleNotFoundError:
        raise CommandFailedError(
            "ottla top: rich is not installed; run `pip install 'ottla[console]'`, or use --once --json"
        ) from None
    return rich.console


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.2 <= value <= 3600:
        raise ValueError
    return value


# argparse shows this name in its error: "invalid number of seconds value: '0'".
_seconds.__name__ = "number of seconds"

COMMAND = Command(
    run=run,
    options=(
        *connection(),
        Option("--interval S", "seconds between refreshes, from 0.2 to 3600", _seconds, default=1.0),
        Option(
            "--rows N",
            "maximum number of topics and of groups; 0 for as many as fit, or all with --once",
            int,
            default=0,
        ),
        Flag("--once", "print once and exit"),
        JSON,
    ),
)

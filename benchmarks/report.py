"""`docs/performance.md`: its tables and charts, from the saved results.

    python -m benchmarks report

Replaces the text between `<!-- NAME -->` and `<!-- /NAME -->` in the page, and draws the charts. Figures without a
saved run (`--save`) are omitted.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.results import Figure, Part

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
CHARTS = ROOT / "docs" / "performance"
OURS, PEER = "#2a6f97", "#c8553d"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def number(value: float) -> str:
    """Return a value with three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(figure: Figure, own: str, peer: str) -> str:
    """Return the median ratio with its least and greatest value."""
    ratios = figure.ratios(own, peer)
    if not ratios:
        return ""
    spread = f" ({ratios[0]:.2f} … {ratios[-1]:.2f})" if len(ratios) > 1 else ""
    return f"**{statistics.median(ratios):.2f}**{spread}"


def origin(part: Part) -> str:
    """Return command, date, commit and machine of a part."""
    stamp = part.stamp
    machine = stamp["machine"]
    return (
        f"`{stamp['command']}`, {stamp['date']}, commit {stamp['commit']}, {machine['cores']} cores"
        f" ({machine['cpu']}, {machine['memory_gb']} GB), Python {stamp['versions']['python']}"
    )


def pairs(names: Sequence[str]) -> str:
    """Return a table of Ottla and Apache Kafka for these parts of the suite broker."""
    parts = results.load("broker")
    blocks = []
    for name in names:
        if name not in parts:
            continue
        rows = []
        for f in parts[name].figures:
            better = "↑" if f.more_is_better else "↓"
            medians = (number(f.median("ottla")), number(f.median("kafka")))
            rows.append([f"{f.name}, {f.unit} {better}", *medians, ratio(f, "ottla", "kafka")])
        head = ["", "Ottla", "Kafka", "Ottla : Kafka"]
        blocks.append(f"{table(head, rows)}\n\n{origin(parts[name])}")
    return "\n\n".join(blocks)


def throughput() -> str:
    """Return the table of throughput: a row per workload."""
    part = results.load("broker").get("table")
    if part is None:
        return ""
    by_row: dict[str, dict[str, Figure]] = {}
    for figure in part.figures:
        kind, _, row = figure.name.partition(": ")
        if row:
            by_row.setdefault(row, {})[kind] = figure
    kinds = ("produce", "produce CPU", "consume", "consume CPU")
    rows = []
    for row, figures in by_row.items():
        ours = number(figures["produce"].median("ottla")) if "produce" in figures else ""
        cells = [ratio(figures[kind], "ottla", "kafka") if kind in figures else "" for kind in kinds]
        rows.append([row, ours, *cells])
    summary = []
    for kind in kinds:
        medians = [statistics.median(f[kind].ratios("ottla", "kafka")) for f in by_row.values() if kind in f]
        summary.append(f"**{statistics.median(medians):.2f}** ({min(medians):.2f} … {max(medians):.2f})")
    rows.append(["median of the rows (least … greatest)", "", *summary])
    head = ["", "produce, MB/s", "produce", "CPU per GB", "consume", "CPU per GB"]
    return f"{table(head, rows)}\n\n{origin(part)}"


def floors() -> str:
    """Return the floors, and the broker's CPU beside them."""
    part = results.load("floors").get("floors")
    if part is None:
        return ""
    rows = [[f.name, number(f.median("floor"))] for f in part.figures]
    return f"{table(['CPU s per GB', 'floor'], rows)}\n\n{origin(part)}"


def clients() -> str:
    """Return the CPU time of the clients, and the ratios."""
    from benchmarks.clients import RATIOS

    part = results.load("clients").get("clients")
    if part is None:
        return ""
    cpu, rate, memory = part.figures
    rows = [
        [name, number(cpu.median(name)), f"{rate.median(name):,.0f}", number(memory.median(name))]
        for name in cpu.values
    ]
    compared = [[f"{peer} : {own}", ratio(cpu, peer, own)] for peer, own in RATIOS if {peer, own} <= set(cpu.values)]
    head = ["", "CPU s per million", "records/s", "RSS, MB"]
    return f"{table(head, rows)}\n\n{table(['CPU per record', 'ratio'], compared)}\n\n{origin(part)}"


def spark() -> str:
    """Return rows/s of Spark's jobs over each source."""
    rows, last = [], None
    for part in results.load("spark").values():
        last = part
        rates = {f.name: f for f in part.figures if not f.name.startswith("CPU of ")}
        cpu = {f.name.removeprefix("CPU of "): f for f in part.figures if f.name.startswith("CPU of ")}
        for name, figure in rates.items():
            for source in figure.values:
                compared = ratio(figure, source, "kafka") if source != "kafka" else ""
                rows.append([name, source, f"{figure.median(source):,.0f}", number(cpu[name].median(source)), compared])
    if last is None:
        return ""
    head = ["job and broker", "source or sink", "rows/s", "CPU s per million", "rows/s : connector"]
    return f"{table(head, rows)}\n\n{origin(last)}"


def stalls() -> str:
    """Return the latencies under each disturbance, and the throughput beside a compaction."""
    parts = results.load("stalls")
    part = parts.get("stalls")
    if part is None:
        return ""
    by_row: dict[str, dict[str, Figure]] = {}
    for figure in part.figures:
        row, _, percentile = figure.name.rpartition(", ")
        by_row.setdefault(row, {})[percentile] = figure
    percentiles = ("p50", "p99", "p99.9")
    rows = [
        [row, *(f"{number(figures[p].median(name))}" for name in ("ottla", "kafka") for p in percentiles)]
        for row, figures in by_row.items()
    ]
    head = ["ms", *(f"{name} {p}" for name in ("Ottla", "Kafka") for p in percentiles)]
    blocks = [table(head, rows)]
    if "compaction" in parts:
        rates = [
            [f.name, *(number(f.median(name)) for name in ("ottla", "kafka"))] for f in parts["compaction"].figures
        ]
        blocks.append(table(["MB/s", "Ottla", "Kafka"], rates))
    return "\n\n".join([*blocks, origin(part)])


BLOCKS: dict[str, Callable[[], str]] = {
    "throughput": throughput,
    "start": lambda: pairs(["start"]),
    "latency": lambda: pairs(["latency", "connections"]),
    "backlog": lambda: pairs(["backlog"]),
    "stalls": stalls,
    "floors": floors,
    "clients": clients,
    "spark": spark,
}


def rendered(page: str) -> str:
    """Return the page with its generated parts renewed."""
    for name, block in BLOCKS.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = block()
        text += "\n" if text else ""
        page = pattern.sub(lambda match, text=text: f"{match[1]}{text}{match[2]}", page)  # type: ignore[misc]
    return page


def draw() -> None:
    """Draw the charts."""
    CHARTS.mkdir(exist_ok=True)
    part = results.load("broker").get("table")
    if part is not None:
        _ratio_chart(part)
    latencies = results.load("broker")
    if "latency" in latencies:
        _latency_chart(latencies)
    part = results.load("clients").get("clients")
    if part is not None:
        _client_chart(part)


def _figure(width: float, height: float) -> Any:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Drawing

    # the same results make the same file
    mpl.rcParams.update({"svg.hashsalt": "ottla", "svg.fonttype": "none", "font.size": 9})
    drawing = Drawing(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(drawing)
    return drawing


def _write(drawing: Any, name: str) -> None:
    drawing.savefig(CHARTS / f"{name}.svg", metadata={"Date": None})


def _ratio_chart(part: Part) -> None:
    """Draw the ratios of produce throughput, a bar per workload."""
    figures = [f for f in part.figures if f.name.startswith("produce: ")]
    drawing = _figure(9, 0.6 + 0.19 * len(figures))
    axis = drawing.subplots()
    medians = [statistics.median(f.ratios("ottla", "kafka")) for f in figures]
    least = [m - f.ratios("ottla", "kafka")[0] for m, f in zip(medians, figures, strict=True)]
    most = [f.ratios("ottla", "kafka")[-1] - m for m, f in zip(medians, figures, strict=True)]
    labels = [f.name.removeprefix("produce: ") for f in figures]
    axis.barh(labels, medians, xerr=[least, most], color=OURS, ecolor="#777777", error_kw={"lw": 0.8})
    axis.axvline(1, color=PEER)
    axis.invert_yaxis()
    axis.margins(y=0.01)
    axis.set_xlabel("produce throughput, Ottla : Kafka (median, least to greatest); the line is Kafka")
    _write(drawing, "throughput")


def _latency_chart(parts: dict[str, Part]) -> None:
    """Draw the percentiles of latency, measured from when a request was due."""
    shown = [name for name in ("latency", "connections") if name in parts]
    drawing = _figure(4.5 * len(shown), 3)
    for axis, name in zip(drawing.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        figures = [f for f in parts[name].figures if f.name.startswith("p")]
        labels = [f.name.split()[0] for f in figures]
        for contestant, color, label in (("ottla", OURS, "Ottla"), ("kafka", PEER, "Kafka")):
            axis.plot(labels, [f.median(contestant) for f in figures], "o-", color=color, label=label)
        axis.set_yscale("log")
        axis.set_ylabel("ms")
        axis.set_title(figures[0].name.partition(" at ")[2])
        axis.legend()
    _write(drawing, "latency")


def _client_chart(part: Part) -> None:
    """Draw the CPU per million records of each client."""
    cpu = part.figures[0]
    names = sorted(cpu.values, key=cpu.median)
    drawing = _figure(9, 0.6 + 0.22 * len(names))
    axis = drawing.subplots()
    peers = ("confluent", "kafka-python", "aiokafka")
    colors = [PEER if name.startswith(peers) else OURS for name in names]
    bars = axis.barh(names, [cpu.median(name) for name in names], color=colors)
    axis.bar_label(bars, fmt="%.2f", padding=2)
    axis.set_xscale("log")
    axis.invert_yaxis()
    axis.set_xlabel("CPU seconds per million records (logarithmic)")
    _write(drawing, "clients")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page and its charts."""
    argparse.ArgumentParser(
        "python -m benchmarks report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args(argv)
    PAGE.write_text(rendered(PAGE.read_text()))
    draw()
    return 0

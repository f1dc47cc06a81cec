"""The dashboards and alert rules in monitoring/ are current and refer to existing metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from scripts.dashboards import DASHBOARDS, FOLDER, rendered

from ottla.broker.monitoring.metric import Kind
from ottla.broker.monitoring.metric_table import METRICS
from ottla.spark.monitoring.metrics import QUERY_METRICS

ROOT = Path(__file__).parents[3]
ALERTS = FOLDER.parent / "prometheus" / "alerts.yml"
METRIC = re.compile(r"\b(?:kafka|ottla|process)_[a-z0-9_]+")
LABEL = re.compile(r"\b([a-zA-Z]+) ?(?:=~|!=|!~|=)\"")
OF_PROMETHEUS = {"job", "instance", "quantile"}


def exported() -> dict[str, set[str]]:
    """Return the names of all series of a broker and of Spark queries, with their labels."""
    names = {}
    for metric in METRICS:
        names[metric.name] = set(metric.labels)
        if metric.kind in (Kind.SUMMARY, Kind.SIZES):
            names |= {f"{metric.name}_{part}": set(metric.labels) for part in ("count", "sum")}
    prefix = "ottla_spark_streaming_query_metrics_"
    names |= {prefix + metric.name.replace("-", "_"): {"query"} for metric in QUERY_METRICS}
    names[f"{prefix}offsets_behind_latest"] = {"query", "topic"}
    names[f"{prefix}duration_ms"] = {"query", "phase"}
    return names


def expressions(path: Path) -> list[str]:
    if path.suffix == ".yml":
        return re.findall(r"^ +expr: (.*)$", path.read_text(), re.MULTILINE)
    page = json.loads(path.read_text())
    queries = [variable["query"]["query"] for variable in page["templating"]["list"] if variable["type"] == "query"]
    return queries + [target["expr"] for panel in page["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("path", [*(FOLDER / name for name in DASHBOARDS), ALERTS], ids=lambda path: path.name)
def test_metrics_and_labels_of_dashboards_and_alerts_exist(path: Path) -> None:
    names = exported()
    named = [(expr, name) for expr in expressions(path) for name in METRIC.findall(expr)]
    assert len(named) > 5
    assert [(expr, name) for expr, name in named if name not in names] == []
    labels = {label for of_metric in names.values() for label in of_metric} | OF_PROMETHEUS
    assert [expr for expr in expressions(path) if set(LABEL.findall(expr)) - labels] == []


@pytest.mark.parametrize("name", DASHBOARDS)
def test_dashboard_file_is_current(name: str) -> None:
    assert (FOLDER / name).read_text() == rendered(name), "run make docs"


@pytest.mark.parametrize("name", DASHBOARDS)
def test_dashboard_panels_do_not_overlap(name: str) -> None:
    cells = [
        (x, y)
        for panel in DASHBOARDS[name]["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_every_alert_has_a_summary_and_a_description() -> None:
    text = ALERTS.read_text()
    alerts = re.findall(r"- alert: (\w+)", text)
    assert len(alerts) == len(set(alerts)) == text.count("summary:") == text.count("description:") > 8


def test_every_alert_has_a_runbook() -> None:
    alerts = re.findall(r"^ +- alert: (\w+)$", ALERTS.read_text(), re.MULTILINE)
    runbooks = re.findall(r"^## (\w+)$", (ROOT / "docs" / "runbooks.md").read_text(), re.MULTILINE)
    assert alerts == runbooks

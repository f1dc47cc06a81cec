"""A report as one HTML file that needs nothing else: the chart is inside."""

from __future__ import annotations

import base64
from pathlib import Path

from ottla.pipelines.serve.report import Report

_TEMPLATE = Path(__file__).with_name("page.html.jinja")


def write(report: Report, chart: Path, path: Path) -> None:
    """Write the page."""
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_TEMPLATE.read_text("utf-8"))
    image = base64.b64encode(chart.read_bytes()).decode()
    path.write_text(template.render(report=report, account=report.account, image=image), "utf-8")

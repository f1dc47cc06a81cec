"""Writes a report as an HTML file that contains everything, including the chart."""

from __future__ import annotations

import base64
from pathlib import Path

from ottla.spark.report.report import Report

TEMPLATE = Path(__file__).with_name("page.html.jinja")


def write(report: Report, chart: Path, path: Path, template: Path = TEMPLATE) -> None:
    """Write the page. A custom template may extend the default template, page.html.jinja."""
    from jinja2 import Environment, FileSystemLoader

    loader = FileSystemLoader([template.parent, TEMPLATE.parent])
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    image = base64.b64encode(chart.read_bytes()).decode()
    path.write_text(environment.get_template(template.name).render(report=report, image=image), "utf-8")

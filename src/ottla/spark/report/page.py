"""Writes a report as an HTML file that contains everything, including its figures."""

from __future__ import annotations

from pathlib import Path

from ottla.spark.report import svg
from ottla.spark.report.report import Report, provenance

TEMPLATE = Path(__file__).with_name("page.html.jinja")


def write(report: Report, path: Path, template: Path = TEMPLATE) -> None:
    """Write the page. A custom template may extend the default template, page.html.jinja."""
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    loader = FileSystemLoader([template.parent, TEMPLATE.parent])
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    figures = [Markup(svg.figure(content)) for content in report.figures or report.bars]
    html = environment.get_template(template.name).render(
        report=report, figures=figures, provenance=provenance("pyspark")
    )
    path.write_text(html, "utf-8")

"""The Jinja environment, with autoescaping. Undefined variables in templates are errors."""

from __future__ import annotations

from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from ottla.version import __version__
from ottla_console.web import charts, texts


def environment() -> Environment:
    """Return the Jinja environment of all pages."""
    jinja = Environment(
        loader=PackageLoader("ottla_console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    jinja.filters |= {
        "number": texts.number,
        "nbytes": texts.nbytes,
        "timestamp": texts.timestamp,
        "age": texts.age,
        "clock": texts.clock,
        "segment": lambda text: quote(str(text), safe=""),
    }
    jinja.globals |= {"line_chart": charts.line_chart, "sparkline": charts.sparkline, "version": __version__}
    return jinja

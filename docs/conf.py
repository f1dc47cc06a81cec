"""The site: `make site`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import ottla
from ottla import aio, errors, serdes

PAGES = {
    "broker": ("A broker in a program", ("ottla.broker.",)),
    "producer": ("Producer", ("ottla.client.producer.",)),
    "share-consumer": ("Share consumer", ("ottla.client.consumer.share.",)),
    "consumer": ("Consumer", ("ottla.client.consumer.", "ottla.records.consumer_record")),
    "admin": ("Admin client", ("ottla.client.admin.", "ottla.security.")),
    "serializers": ("Serializers", ("ottla.serializers", "ottla.client.serializers")),
    "values": ("Values and enumerations", ("ottla.model", "ottla.client.kafka_python")),
}
"""The pages about the names in `ottla`: their titles, and the modules that define the names."""


BUILT_IN = ("tuple", "int", "str", "object", "Enum", "BaseException")


def write_api_pages() -> None:
    """Write the pages of docs/api, but for their index. They are not in the repository."""
    left = dict(ottla._HOMES)
    for page, (title, homes) in PAGES.items():
        names = sorted((name for name, home in left.items() if f"{home}.".startswith(homes)), key=str.lower)
        for name in names:
            del left[name]
        # the clients first: what they return follows
        names.sort(key=lambda name: not name.startswith(("Kafka", "Broker")))
        write_page(page, title, names, "ottla")
    left = {name: home for name, home in left.items() if not home.startswith("ottla.client.options.")}
    assert not left.keys() - {"KafkaError"}, f"no page of the API has {left}"
    write_page("aio", "Clients for asyncio", [name for name in aio.__all__ if name.startswith("Kafka")], "ottla.aio")
    raised = [name for name in vars(errors) if name.endswith("Error") and not name.startswith("_")]
    write_page("errors", "Errors", raised, "ottla.errors")
    write_page("serdes", "Serializers with a schema registry", serdes.__all__, "ottla.serdes")
    write_page("testing", "Testing", ["Faults", "Fault"], "ottla.testing.faults")


def write_page(page: str, title: str, names: list[str], module: str) -> None:
    """Write a page about these names of a module."""
    members = ":no-members:" if module == "ottla.errors" else f":inherited-members: {', '.join(BUILT_IN)}"
    classes = [f"```{{eval-rst}}\n.. autoclass:: {module}.{name}\n   {members}\n```" for name in names]
    (Path(__file__).parent / "api" / f"{page}.md").write_text("\n\n".join([f"# {title}", *classes]) + "\n")


def mark_code(app: object, what: str, name: str, of: object, options: object, lines: list[str]) -> None:
    """Turn a docstring, which is plain text with names in backticks and indented code, into reStructuredText."""
    marked: list[str] = []
    for line in lines:
        is_code = line.startswith("    ")
        if is_code and (not marked or not marked[-1].startswith((" ", "::"))) and (not marked or marked[-1] == ""):
            marked += ["::", ""]
        marked.append(line if is_code else re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line))
    lines[:] = marked


def setup(app: object) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", mark_code)  # type: ignore[attr-defined]


write_api_pages()
project = "Ottla"
author = "The Ottla authors"
copyright = "The Ottla authors, Apache-2.0"  # noqa: A001
version = release = ottla.__version__
html_title = "Ottla"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["ottla.css"]
html_search_scorer = str(Path(__file__).parent / "scorer.js")
html_theme_options = {
    "source_repository": "https://github.com/ottla/ottla/",
    "source_branch": "main",
    "source_directory": "docs/",
    "light_css_variables": {"color-brand-primary": "#0b6e4f", "color-brand-content": "#0b6e4f"},
    "dark_css_variables": {"color-brand-primary": "#4cc9a0", "color-brand-content": "#4cc9a0"},
}

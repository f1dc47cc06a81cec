"""The site is built without warnings, which are broken links, unknown languages and docstrings that do not render."""

from __future__ import annotations

from pathlib import Path

from tests.site.conftest import ROOT


def test_clients_and_their_methods_have_entries(site: Path) -> None:
    page = (site / "api/consumer/index.html").read_text()
    for name in ("poll", "seek", "commit", "subscribe", "offsets_for_times"):
        assert f'id="ottla.KafkaConsumer.{name}"' in page


def test_each_page_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        if page.stem != "index":
            assert f'href="{page.stem}/"' in home, page.stem


def test_each_guide_is_linked_from_the_list_of_guides(site: Path) -> None:
    guides = (site / "how-to/index.html").read_text()
    for page in (ROOT / "docs/how-to").glob("*.md"):
        if page.stem != "index":
            assert f'href="{page.stem}/"' in guides, page.stem

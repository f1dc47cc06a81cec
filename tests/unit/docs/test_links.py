"""Links between the project's pages have existing targets, also from PyPI, which shows only the README."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
REPOSITORY = re.compile(r"https://github\.com/ottla/ottla/(?:blob|tree)/main/")
CODE = re.compile(r"^```.*?^```|^(?: {4}|\t).*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.*?) *$", re.MULTILINE)


def tracked_pages() -> list[Path]:
    names = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split()]


def links(page: Path) -> list[str]:
    return LINK.findall(CODE.sub("", page.read_text()))


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub generates them."""
    counts: dict[str, int] = {}
    slugs = set()
    for heading in HEADING.findall(re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count = counts.get(slug, 0)
        counts[slug] = count + 1
        slugs.add(f"{slug}-{count}" if count else slug)
    return slugs


def is_broken(page: Path, link: str) -> bool:
    base = ROOT if REPOSITORY.match(link) else page.parent
    path, _, anchor = REPOSITORY.sub("", link).partition("#")
    if "://" in path or path.startswith("mailto:"):
        return False
    target = (base / path).resolve() if path else page
    return not target.exists() or (bool(anchor) and target.suffix == ".md" and anchor not in anchors(target))


@pytest.mark.parametrize("page", tracked_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_existing_targets(page: Path) -> None:
    assert [link for link in links(page) if is_broken(page, link)] == []


def test_links_of_the_readme_are_absolute() -> None:
    assert [link for link in links(ROOT / "README.md") if "://" not in link] == []


def test_links_out_of_the_site_are_absolute() -> None:
    """The published site contains only the pages in docs."""
    pages = [page for page in tracked_pages() if page.is_relative_to(ROOT / "docs")]
    out = [(page.name, link) for page in pages for link in links(page) if "://" not in link and leaves_docs(page, link)]
    assert out == []


def leaves_docs(page: Path, link: str) -> bool:
    return not (page.parent / link.partition("#")[0]).resolve().is_relative_to(ROOT / "docs")


def test_broken_links_are_detected(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One *heading*, `code` & more\n[a](#one-heading-code--more) [b](#two) [c](other.md) `[d](no.md)`\n"
    )
    assert [link for link in links(page) if is_broken(page, link)] == ["#two", "other.md"]

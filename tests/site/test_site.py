"""The site is built without warnings, which are broken links, unknown languages and docstrings that do not render."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "dirhtml", "docs", str(target)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr
    return target


def test_clients_and_their_methods_have_entries(site: Path) -> None:
    page = (site / "api/consumer/index.html").read_text()
    for name in ("poll", "seek", "commit", "subscribe", "offsets_for_times"):
        assert f'id="ottla.KafkaConsumer.{name}"' in page


def test_each_page_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        if page.stem != "index":
            assert f'href="{page.stem}/"' in home, page.stem


@pytest.mark.parametrize(
    ("words", "page"),
    [
        (("subscrib",), "consumer"),
        (("idempot",), "producer"),
        (("quota",), "operations"),
        (("scram",), "security"),
        (("kubernet",), "deploying"),
        (("kafka", "python"), "from-kafka-python"),
        (("fixtur",), "testing"),
        (("kraft",), "limits"),
    ],
)
def test_the_search_leads_to_the_page(site: Path, words: tuple[str, ...], page: str) -> None:
    text = (site / "searchindex.js").read_text()
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    number = index["docnames"].index(page)
    for word in words:
        pages = [index[terms].get(word, []) for terms in ("terms", "titleterms")]
        assert any(number == of or (isinstance(of, list) and number in of) for of in pages), word

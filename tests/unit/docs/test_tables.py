"""The tables in docs/ match the code, and every option is documented."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import compatibility_page, option_types, tables
from scripts.tables import DOCS, TABLES, renewed

from ottla.broker.apis import CONTROLLER_APIS, SPECIAL_APIS, SUPPORTED_APIS, ApiEntry
from ottla.config.admin import AdminConfig
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.group import GroupConfig
from ottla.config.mirror import MirrorConfig
from ottla.config.options import Config
from ottla.config.producer import ProducerConfig
from ottla.config.topic import TopicConfig


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_tables_are_up_to_date(page: object) -> None:
    text = page.read_text()  # type: ignore[attr-defined]
    assert renewed(text) == text, "run make docs"


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_in_a_page_with_its_rows(name: str) -> None:
    assert any(f"<!-- {name} -->\n| " in page.read_text() for page in DOCS.glob("*.md"))


def test_empty_table_of_a_new_page_is_filled() -> None:
    page = "<!-- metrics-left-out -->\n<!-- /metrics-left-out -->\n"
    assert "| metric | why |" in renewed(page)
    assert renewed(renewed(page)) == renewed(page)


@pytest.mark.parametrize("module", option_types.SUBJECTS)
def test_option_types_are_up_to_date(module: str) -> None:
    assert (option_types.FOLDER / f"{module}.py").read_text() == option_types.module(module), "run make docs"


@pytest.mark.parametrize("config", [BrokerConfig, TopicConfig, GroupConfig, ProducerConfig, ConsumerConfig])
def test_every_option_is_documented(config: type[Config]) -> None:
    incomplete = [key for key, option in config.options.items() if not option.doc.endswith((".", "…"))]
    assert not incomplete, "describe the option in a sentence that ends with a full stop"


@pytest.mark.parametrize("config", [BrokerConfig, AdminConfig, ProducerConfig, ConsumerConfig, MirrorConfig])
def test_option_with_an_effect_is_not_listed_as_without_effect(config: type[Config]) -> None:
    listed = sorted(config.options.keys() & config.no_effect.keys())
    assert not listed, "remove the option from NO_EFFECT"


@pytest.mark.parametrize("row", SUPPORTED_APIS, ids=lambda row: row.name)
def test_supported_api_has_versions_and_a_handler(row: ApiEntry) -> None:
    assert row.versions(in_cluster=True)
    assert callable(row.handler)


@pytest.mark.parametrize("row", SPECIAL_APIS, ids=lambda row: row.name)
def test_special_api_differs_from_the_defaults(row: ApiEntry) -> None:
    assert row in SUPPORTED_APIS
    assert row != ApiEntry(row.name), "remove the row: it says nothing else than the defaults"


@pytest.mark.parametrize("name", sorted(CONTROLLER_APIS))
def test_controller_api_is_declared_and_has_no_handler(name: str) -> None:
    assert ApiEntry(name).versions(in_cluster=True)
    with pytest.raises(ModuleNotFoundError):
        _ = ApiEntry(name).handler


def test_page_of_compatibility_changes_by_results_of_tests_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = compatibility_page.PAGE.read_text()
    monkeypatch.setattr(compatibility_page, "NOTES", tmp_path / "none.json")
    assert compatibility_page.page(current) == current
    results = tmp_path / "results.json"
    results.write_text('[["a client", "1.0", "sends", ["records"]]]')
    monkeypatch.setattr(compatibility_page, "NOTES", results)
    assert "| 1.0 | sends | records |" in compatibility_page.page(current)
    monkeypatch.setattr(tables, "DOCS", tmp_path)
    (tmp_path / "compatibility.md").write_text(current)
    tables.main()
    assert (tmp_path / "compatibility.md").read_text() == current

"""Pipeline projects: creation from templates, specification and storage."""

import ast
from pathlib import Path

import pytest

from ottla.errors import ConfigurationError
from ottla_pipelines.declarative.projects import TEMPLATES, Template, check_storage, create, find_spec, template


@pytest.mark.parametrize("project_template", TEMPLATES, ids=lambda t: t.name)
def test_created_project_has_all_files(tmp_path: Path, project_template: Template) -> None:
    yaml = pytest.importorskip("yaml")
    written = create(tmp_path / "mine", project_template)
    assert all(path.is_file() for path in written)
    spec = yaml.safe_load((tmp_path / "mine" / "spark-pipeline.yml").read_text())
    assert spec["name"] == "mine"
    assert spec["storage"] == f"file://{tmp_path}/mine/pipeline-storage"
    readme = (tmp_path / "mine" / "README.md").read_text()
    assert project_template.doc[1:] in readme
    assert ("run --demo" in readme) == (tmp_path / "mine" / "demo_input.py").is_file()
    definitions = list((tmp_path / "mine" / "transformations").glob("*.py"))
    assert definitions
    for path in definitions:
        ast.parse(path.read_text())


def test_directory_with_files_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(ConfigurationError, match="already exists"):
        create(tmp_path, TEMPLATES[0])
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_unknown_template_is_rejected_with_the_existing_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"no 'page-visit'.*page-visits.*page-visits, empty"):
        template("page-visit")


def test_invalid_project_name_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not a valid project name"):
        create(tmp_path / "a b", TEMPLATES[0])


def test_specification_is_located_from_subdirectories(tmp_path: Path) -> None:
    create(tmp_path / "mine", TEMPLATES[1])
    spec = tmp_path / "mine" / "spark-pipeline.yml"
    assert find_spec(tmp_path / "mine" / "transformations") == spec
    assert find_spec(spec) == spec
    with pytest.raises(ConfigurationError, match="ottla pipeline init"):
        find_spec(tmp_path)
    (tmp_path / "mine" / "spark-pipeline.yaml").write_text("")
    with pytest.raises(ConfigurationError, match="remove one"):
        find_spec(tmp_path / "mine")


def test_directory_name_with_a_blank_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="has a blank"):
        create(tmp_path / "my projects" / "mine", TEMPLATES[1])
    assert not list(tmp_path.iterdir())


def test_storage_path_is_not_percent_encoded(tmp_path: Path) -> None:
    """Spark interprets %C3%BC as six characters."""
    create(tmp_path / "für-alle" / "mine", TEMPLATES[1])
    assert "/für-alle/mine/pipeline-storage" in (tmp_path / "für-alle" / "mine" / "spark-pipeline.yml").read_text()


def test_current_directory_is_a_valid_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert create(Path(), TEMPLATES[1])


def test_storage_outside_the_project_is_accepted_unless_it_belongs_to_another(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for storage in ("file:///big/disk", "s3://bucket/pipeline-storage", f"file:{tmp_path}/link/pipeline-storage"):
        check_storage(tmp_path, storage)
    with pytest.raises(ConfigurationError, match=r"storage: .* is not in this project"):
        check_storage(tmp_path, "file:///others/pipeline-storage")

import ast
from pathlib import Path

import pytest

from ottla.errors import ConfigurationError
from ottla_pipelines.declarative.projects import TEMPLATES, Template, check_storage, create, find_spec, template


@pytest.mark.parametrize("chosen", TEMPLATES, ids=lambda t: t.name)
def test_a_project_is_complete(tmp_path: Path, chosen: Template) -> None:
    yaml = pytest.importorskip("yaml")
    written = create(tmp_path / "mine", chosen)
    assert all(path.is_file() for path in written)
    spec = yaml.safe_load((tmp_path / "mine" / "spark-pipeline.yml").read_text())
    assert spec["name"] == "mine"
    assert spec["storage"] == f"file://{tmp_path}/mine/pipeline-storage"
    readme = (tmp_path / "mine" / "README.md").read_text()
    assert chosen.doc[1:] in readme
    assert ("run --demo" in readme) == (tmp_path / "mine" / "demo_input.py").is_file()
    definitions = list((tmp_path / "mine" / "transformations").glob("*.py"))
    assert definitions
    for path in definitions:
        ast.parse(path.read_text())


def test_a_directory_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(ConfigurationError, match="already exists"):
        create(tmp_path, TEMPLATES[0])
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_an_unknown_template_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"no 'page-visit'.*page-visits.*page-visits, empty"):
        template("page-visit")


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not a valid project name"):
        create(tmp_path / "a b", TEMPLATES[0])


def test_the_specification_is_found_from_within(tmp_path: Path) -> None:
    create(tmp_path / "mine", TEMPLATES[1])
    spec = tmp_path / "mine" / "spark-pipeline.yml"
    assert find_spec(tmp_path / "mine" / "transformations") == spec
    assert find_spec(spec) == spec
    with pytest.raises(ConfigurationError, match="ottla pipeline init"):
        find_spec(tmp_path)
    (tmp_path / "mine" / "spark-pipeline.yaml").write_text("")
    with pytest.raises(ConfigurationError, match="remove one"):
        find_spec(tmp_path / "mine")


def test_a_directory_whose_name_spark_would_change_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="has a blank"):
        create(tmp_path / "my projects" / "mine", TEMPLATES[1])
    assert not list(tmp_path.iterdir())


def test_storage_is_shown_as_written(tmp_path: Path) -> None:
    """Spark takes %C3%BC for six characters."""
    create(tmp_path / "für-alle" / "mine", TEMPLATES[1])
    assert "/für-alle/mine/pipeline-storage" in (tmp_path / "für-alle" / "mine" / "spark-pipeline.yml").read_text()


def test_here_is_a_name_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert create(Path(), TEMPLATES[1])


def test_storage_elsewhere_is_accepted_unless_it_is_another_projects(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for storage in ("file:///big/disk", "s3://bucket/pipeline-storage", f"file:{tmp_path}/link/pipeline-storage"):
        check_storage(tmp_path, storage)
    with pytest.raises(ConfigurationError, match=r"storage: .* is not in this project"):
        check_storage(tmp_path, "file:///others/pipeline-storage")

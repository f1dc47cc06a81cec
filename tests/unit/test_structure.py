"""The structure of `src/` and `tests/`, in addition to the import contract in pyproject.toml."""

import ast
import subprocess
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.unit.source_trees import statements

TESTS = Path(__file__).parents[1]
SRC = TESTS.parent / "src"
MAX_MODULES = 20
FLAT = {"ottla/broker/handlers", "ottla/protocol/messages"}
"""Folders with a file per API; Kafka's list of APIs is flat."""


def modules() -> dict[str, Path]:
    """Return every module by its dotted name, without the templates, which are copied into other projects."""
    paths = [path for path in SRC.rglob("*.py") if "templates" not in path.parts]
    return {".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imports(path: Path, module_paths: dict[str, Path]) -> Iterator[str]:
    """Yield the modules that a file imports anywhere: at its top, inside functions, and for type checkers only.

    `from package import name` counts as an import of `package.name` if that is a module, and of the package's
    `__init__.py` if `name` is defined or re-exported there. An import also runs the `__init__.py` of the parent
    packages; that is not counted, so an `__init__.py` may re-export names of the modules inside its package.
    """
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in module_paths)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno} is a relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & module_paths.keys()
            if node.module in module_paths and names - module_paths.keys():
                yield node.module


def test_no_folder_has_too_many_modules() -> None:
    counts = Counter(path.parent.relative_to(SRC).as_posix() for path in SRC.rglob("*.py") if path.stem != "__init__")
    assert counts.keys() >= FLAT
    large = {folder: n for folder, n in counts.items() if n > MAX_MODULES and folder not in FLAT}
    assert not large, f"more than {MAX_MODULES} modules: move those of one subject to a subfolder"


def test_imports_form_no_cycle() -> None:
    module_paths = modules()
    graph = {name: set(imports(path, module_paths)) - {name} for name, path in module_paths.items()}
    assert sum(len(targets) for targets in graph.values()) > 2000, "the graph lacks imports"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = error.args[1]
        raise AssertionError(f"an import cycle: {' <- '.join(cycle)}") from None


def test_class_names_of_the_server_are_unique() -> None:
    server = [*SRC.glob("ottla/*.py")]
    for package in (
        "broker",
        "cluster",
        "coordinator",
        "net",
        "protocol",
        "records",
        "replication",
        "security",
        "storage",
    ):
        server += SRC.glob(f"ottla/{package}/**/*.py")
    names = Counter(
        node.name
        for path in server
        if path.parent.name != "messages"  # KIP-848 and KIP-932 have structures of one name in several messages
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    ambiguous = [name for name, count in names.items() if count > 1]
    assert not ambiguous, "rename one of the classes"


def test_no_module_imports_from_a_test_module() -> None:
    """Code that several test modules use is in a module without tests."""
    imported = {path: list(imported_names(path)) for path in TESTS.rglob("*.py")}
    assert sum(map(len, imported.values())) > 2000, "the imports are missing"
    offenders = [
        f"{path.relative_to(TESTS)}: {name}"
        for path, names in imported.items()
        for name in names
        if any(part.startswith("test_") for part in name.split("."))
    ]
    assert offenders == []


def imported_names(path: Path) -> Iterator[str]:
    """Yield the imported modules of a file, and its imports from packages of the tests, which may be modules."""
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno} is a relative import"
            yield str(node.module)
            if str(node.module).split(".")[0] == "tests":
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_file_has_conflict_markers() -> None:
    files = subprocess.run(
        ["git", "grep", "-lE", "^(<{7} |>{7} )"], cwd=SRC.parent, capture_output=True, text=True, check=False
    )
    assert files.stdout == ""

"""Fixtures that run every test of the hot path twice: with the compiled modules and with their Python source."""

import importlib
import sys
from types import SimpleNamespace

import pytest

import ottla.records
from ottla.records import _source


def _modules() -> SimpleNamespace:
    names = {name.replace("column_decoder", "columns"): f"ottla.records.{name}" for name in _source.MODULES}
    return SimpleNamespace(**{name: importlib.import_module(path) for name, path in names.items()})


def _plain() -> SimpleNamespace:
    """Load the same modules again from source, without adding them to sys.modules."""
    hot = {f"ottla.records.{name}" for name in _source.MODULES}
    saved = {name: sys.modules.pop(name) for name in hot if name in sys.modules}
    sys.meta_path.insert(0, _source.SourceFinder)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OTTLA_PURE", "1")  # suppresses the warning about uncompiled modules
            modules = _modules()
    finally:
        sys.meta_path.remove(_source.SourceFinder)
        for name in hot:
            sys.modules.pop(name, None)
            if name in saved:
                sys.modules[name] = saved[name]
                setattr(ottla.records, name.rpartition(".")[2], saved[name])
    assert all(module.__file__.endswith(".py") for module in vars(modules).values())
    return modules


FORMS = {"plain": _plain()}
FORMS["installed"] = _modules()


@pytest.fixture(params=list(FORMS))
def hot(request: pytest.FixtureRequest) -> SimpleNamespace:
    """The hot-path modules by name (columns is column_decoder), compiled or from source."""
    return FORMS[request.param]


@pytest.fixture(scope="session")
def both() -> tuple[SimpleNamespace, SimpleNamespace]:
    return FORMS["plain"], FORMS["installed"]

"""Load examples as modules in this process."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def load_example(path: str, library: str = "ottla") -> ModuleType:
    """Return an example as a module. It imports `library` instead of ottla."""
    file = EXAMPLES / path
    source = file.read_text().replace("from ottla import", f"from {library} import")
    module = ModuleType(file.stem)
    module.__file__ = str(file)
    sys.modules.setdefault(module.__name__, module)
    exec(compile(source, file, "exec"), module.__dict__)
    return module

"""Check that types are known for every name that users import: `pyright --verifytypes`, without internal modules.

basedpyright is pyright with its own Node.js in a wheel, so that it needs nothing but pip.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ottla

SOURCE = Path(__file__).parents[1] / "src"
MODULES = (
    "ottla.aio",
    "ottla.errors",
    "ottla.legacy",
    "ottla.serdes",
    "ottla.serializers",
    "ottla.spark",
    "ottla.testing.clients",
)
"""Modules with public names besides those of `ottla`."""
CLASSES = ("ottla.broker.embedded.Broker", "ottla.testing.faults.Faults", "ottla.testing.clock.BrokerClock")
"""Classes that users get from fixtures and methods."""


def public_names() -> Iterator[str]:
    """Yield the public names, by the modules that define them."""
    yield from (f"{home}.{name}" for name, home in ottla._HOMES.items())
    yield from CLASSES
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]):
            value = getattr(module, name)
            home = getattr(value, "__module__", module_name)
            if home.startswith("ottla"):
                yield f"{home}.{getattr(value, '__qualname__', name)}"


def symbols() -> list[dict[str, Any]]:
    """Return pyright's symbols of the package, from a directory without a project file."""
    scripts = Path(sys.executable).parent
    # This mode ignores --pythonpath, so that the other packages are looked up by the `python` of the PATH.
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    checked = subprocess.run(
        [str(scripts / "basedpyright"), "--outputjson", "--verifytypes", "ottla", "--ignoreexternal"],
        cwd="/",
        env={**os.environ, "PATH": path, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    completeness: list[dict[str, Any]] = json.loads(checked.stdout)["typeCompleteness"]["symbols"]
    return completeness


def main() -> int:
    """Print the public names whose types are not known, and the share of those that are."""
    prefixes = tuple(sorted({f"{name}." for name in public_names()}))
    public = [symbol for symbol in symbols() if f"{symbol['name']}.".startswith(prefixes)]
    incomplete = [symbol for symbol in public if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]]
    for symbol in incomplete:
        messages = "; ".join(diagnostic["message"].splitlines()[0] for diagnostic in symbol["diagnostics"])
        print(f"{symbol['name']}: {messages}")
    share = 100 * (len(public) - len(incomplete)) / len(public)
    print(f"{share:.1f} % of {len(public)} public names have a known type")
    return bool(incomplete)


if __name__ == "__main__":
    sys.exit(main())

"""The routes about the registry itself."""

from __future__ import annotations

from typing import Any

from ottla.version import __version__
from ottla_registry.rest.exchange import Call


async def get_root(call: Call) -> Any:
    return {}


async def get_cluster_id(call: Call) -> Any:
    clusters = {"kafka-cluster": await call.registry.cluster_id(), "schema-registry-cluster": "schema-registry"}
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


async def get_version(call: Call) -> Any:
    return {"version": __version__, "commitId": ""}

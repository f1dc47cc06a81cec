"""Print the versions of each API that brokers support, and the usable one, as kafka-broker-api-versions.sh does."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import JSON
from ottla.cli.framework.output import Output
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.cluster import VersionRange
from ottla.errors import KafkaError
from ottla.model import Node
from ottla.protocol.apis import BY_KEY, BY_NAME, NOT_DECLARED

CONFIGS: Final[Mapping[str, Any]] = {"retries": 0, "request.timeout.ms": 5_000}
"""Configs of Kafka's tool: a single attempt with a short timeout. The profile and a properties file may override them.
"""

NOT_MISSED: Final = frozenset({4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82, 93, 94})
"""Keys of APIs that are not listed if a broker lacks them, because clients of Kafka 4.3 do not know them either:
inter-broker and controller APIs, and newer ones.
"""


class ApiVersions(NamedTuple):
    """An API with the versions that a broker supports and the version that this client would use.

    `min_version` and `max_version` are None if the broker does not support the API, and `name` is None if the client
    does not know it. If both know it, `usable_version` is the version to use, or it is None and `unusable` has the
    reason.
    """

    api_key: int
    name: str | None
    min_version: int | None = None
    max_version: int | None = None
    usable_version: int | None = None
    unusable: str | None = None

    def __str__(self) -> str:
        label = f"{self.name or 'UNKNOWN'}({self.api_key}): "
        if self.min_version is None:
            return f"{label}UNSUPPORTED"
        one = self.min_version == self.max_version
        versions = str(self.min_version) if one else f"{self.min_version} to {self.max_version}"
        if self.usable_version is not None:
            return f"{label}{versions} [usable: {self.usable_version}]"
        return f"{label}{versions} [unusable: {self.unusable}]" if self.unusable else f"{label}{versions}"


def run(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[dict[str, Any]]:
    """Print the API versions of all brokers, and return them for JSON. An unreachable broker is reported; the exit code
    is 0 even then, as with Kafka's tool.
    """
    document = []
    for node in admin.describe_cluster().nodes:
        # Brokers list only nodes that are not fenced.
        address = f"{node.host}:{node.port} (id: {node.id} rack: {node.rack or 'null'} isFenced: false)"
        try:
            versions = _api_versions(admin, node)
        except KafkaError as error:
            output.text(f"{address} -> ERROR: {error}")
            document.append({**node._asdict(), "apis": None, "error": str(error)})
        else:
            output.text("{} -> (\n\t{}\n)".format(address, ",\n\t".join(map(str, versions))))
            document.append({**node._asdict(), "apis": [api._asdict() for api in versions], "error": None})
    return document


COMMAND = AdminCommand(run=run, configs=CONFIGS, options=(*connection(), JSON))


def _api_versions(admin: KafkaAdminClient, node: Node) -> list[ApiVersions]:
    supported = admin.api_versions(node.id)
    return api_versions(
        {int(name) if name.isdecimal() else BY_NAME[name].key: span for name, span in supported.items()}
    )


def api_versions(supported: Mapping[int, VersionRange]) -> list[ApiVersions]:
    """Return the APIs that a broker supports, and those that it lacks although clients of Kafka 4.3 know them, sorted
    by key. `supported`: the versions by API key.
    """
    missing = {*BY_KEY, *NOT_DECLARED} - {*supported} - NOT_MISSED
    return sorted(
        [*(_supported(key, span) for key, span in supported.items()), *(ApiVersions(k, _name(k)) for k in missing)]
    )


def _supported(key: int, span: VersionRange) -> ApiVersions:
    api = ApiVersions(key, _name(key), *span)
    ours = BY_KEY[key].request.VERSIONS if key in BY_KEY else range(0)
    if api.name is None:
        return api
    if ours.stop <= span.min_version:
        return api._replace(unusable="node too new")
    if span.max_version < ours.start:
        return api._replace(unusable="node too old")
    return api._replace(usable_version=min(ours.stop - 1, span.max_version))


def _name(key: int) -> str | None:
    return BY_KEY[key].name if key in BY_KEY else NOT_DECLARED.get(key)

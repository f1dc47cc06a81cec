"""Tell the versions of each API that brokers speak, and the one to use, as kafka-broker-api-versions.sh does."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ottla.cli.framework.connection import add_connection, client_options
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.cluster import VersionRange
from ottla.errors import KafkaError
from ottla.model import Node
from ottla.protocol.apis import BY_KEY, BY_NAME, NOT_DECLARED

OPTIONS: Final[Mapping[str, Any]] = {"retries": 0, "request.timeout.ms": 5_000}
"""Kafka's tool, too, tries once, and has its own time for that. A properties file may have others."""

NOT_MISSED: Final = frozenset({4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82, 93, 94})
"""APIs that no client of Kafka 4.3 asks brokers for: theirs and their controllers' own, and newer ones."""


class ApiVersions(NamedTuple):
    """The versions of an API that a broker speaks, and the one to use; None where there is none."""

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


Found = list[ApiVersions] | KafkaError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla broker-api-versions`."""
    add_connection(parser)
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; 0 also where a broker of the cluster does not answer, which is told, as Kafka's tool has it."""
    with KafkaAdminClient({**OPTIONS, **client_options(args)}) as admin:
        found = {node: _ask(admin, node) for node in admin.describe_cluster().nodes}
    if args.json:
        print(json.dumps([_as_json(node, told) for node, told in found.items()]))
    else:
        for node, told in found.items():
            print(f"{_address(node)} -> {_text(told)}")
    return 0


def _ask(admin: KafkaAdminClient, node: Node) -> Found:
    try:
        spoken = admin.api_versions(node.id)
    except KafkaError as error:
        return error
    return api_versions({int(name) if name.isdecimal() else BY_NAME[name].key: span for name, span in spoken.items()})


def api_versions(spoken: Mapping[int, VersionRange]) -> list[ApiVersions]:
    """What a broker speaks and, of what clients ask for, what it does not, in the order of numbers."""
    missed = {*BY_KEY, *NOT_DECLARED} - {*spoken} - NOT_MISSED
    return sorted([*(_spoken(key, span) for key, span in spoken.items()), *(ApiVersions(k, _name(k)) for k in missed)])


def _spoken(key: int, span: VersionRange) -> ApiVersions:
    found = ApiVersions(key, _name(key), *span)
    ours = BY_KEY[key].request.VERSIONS if key in BY_KEY else range(0)
    if found.name is None:
        return found
    if ours.stop <= span.min_version:
        return found._replace(unusable="node too new")
    if span.max_version < ours.start:
        return found._replace(unusable="node too old")
    return found._replace(usable_version=min(ours.stop - 1, span.max_version))


def _name(key: int) -> str | None:
    return BY_KEY[key].name if key in BY_KEY else NOT_DECLARED.get(key)


def _address(node: Node) -> str:
    # A broker that is fenced is not among those that are told.
    return f"{node.host}:{node.port} (id: {node.id} rack: {node.rack or 'null'} isFenced: false)"


def _text(told: Found) -> str:
    if isinstance(told, KafkaError):
        return f"ERROR: {told}"
    return "(\n\t{}\n)".format(",\n\t".join(map(str, told)))


def _as_json(node: Node, told: Found) -> dict[str, Any]:
    if isinstance(told, KafkaError):
        return {**node._asdict(), "apis": None, "error": str(told)}
    return {**node._asdict(), "apis": [api._asdict() for api in told], "error": None}

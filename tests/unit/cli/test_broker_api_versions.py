"""`ottla broker-api-versions`: usable versions, and unreachable brokers."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ottla import Broker, KafkaAdminClient
from ottla.broker.apis import advertised_apis, unsupported_apis
from ottla.cli.broker_api_versions import ApiVersions, api_versions
from ottla.cli.main import main
from ottla.client.admin.cluster import VersionRange
from ottla.errors import BrokerConnectionError
from ottla.protocol.apis import APIS, BY_NAME, NOT_DECLARED

RETRY_SECONDS = 30
"""Less than the minute for which a client with retries tries to connect."""
NEWEST_FETCH = BY_NAME["Fetch"].request.VERSIONS[-1]


@pytest.fixture
def at(ottla_broker: Broker) -> tuple[str, ...]:
    return "broker-api-versions", "--bootstrap-server", ottla_broker.bootstrap_servers


@pytest.mark.parametrize(
    ("key", "versions", "text"),
    [
        (1, (0, 3), "Fetch(1): 0 to 3 [usable: 3]"),
        (1, (4, NEWEST_FETCH + 7), f"Fetch(1): 4 to {NEWEST_FETCH + 7} [usable: {NEWEST_FETCH}]"),
        (1, (90, 91), "Fetch(1): 90 to 91 [unusable: node too new]"),
        (46, (0, 0), "ListPartitionReassignments(46): 0 [usable: 0]"),
        (76, (0, 0), "ShareGroupHeartbeat(76): 0 [unusable: node too old]"),
        (82, (0, 1), "UpdateRaftVoter(82): 0 to 1 [unusable: node too new]"),
        (4711, (2, 3), "UNKNOWN(4711): 2 to 3"),
    ],
)
def test_usable_version_is_the_highest_that_client_and_broker_support(
    key: int, versions: tuple[int, int], text: str
) -> None:
    assert text in [str(output) for output in api_versions({key: VersionRange(*versions)})]


def test_api_that_the_broker_lacks_is_reported_as_unsupported() -> None:
    output = api_versions({0: VersionRange(0, 13)})
    assert [api.api_key for api in output] == sorted(api.api_key for api in output)
    texts = list(map(str, output))
    assert "Metadata(3): UNSUPPORTED" in texts
    assert not any(text.startswith(("LeaderAndIsr", "Vote", "UNKNOWN")) for text in texts)


def test_api_without_declared_messages_has_a_name_and_a_key() -> None:
    declared = {api.name for api in APIS}
    assert unsupported_apis().keys() - declared == {*NOT_DECLARED.values()}
    assert not {api.key for api in APIS} & {*NOT_DECLARED}, "remove the declared API from NOT_DECLARED"


def test_highest_version_of_every_served_api_is_usable(
    at: tuple[str, ...], ottla_broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, "--json"]) == 0
    ((node),) = json.loads(capsys.readouterr().out)
    assert (f"{node['host']}:{node['port']}", node["error"]) == (ottla_broker.bootstrap_servers, None)
    output = [ApiVersions(**api) for api in node["apis"]]
    supported = [api for api in output if api.min_version is not None]
    assert {api.name for api in supported} == {
        row.name for row, _ in advertised_apis(telemetry=False, in_cluster=False)
    }
    assert all(api.usable_version == api.max_version for api in supported)
    assert main([*at]) == 0
    head, *lines, end = capsys.readouterr().out.splitlines()
    assert head == f"{ottla_broker.bootstrap_servers} (id: 0 rack: null isFenced: false) -> ("
    assert [line.strip("\t,") for line in lines] == list(map(str, output))
    assert end == ")"


def test_broker_that_is_unreachable_is_printed_with_its_error(
    at: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable(self: KafkaAdminClient, node_id: int) -> None:
        raise BrokerConnectionError(f"{node_id} is away")

    monkeypatch.setattr(KafkaAdminClient, "api_versions", unreachable)
    assert main([*at]) == 0
    assert capsys.readouterr().out.endswith(" (id: 0 rack: null isFenced: false) -> ERROR: 0 is away\n")
    assert main([*at, "--json"]) == 0
    ((node),) = json.loads(capsys.readouterr().out)
    assert (node["apis"], node["error"]) == (None, "0 is away")


def test_unreachable_bootstrap_server_fails_without_retries(capsys: pytest.CaptureFixture[str]) -> None:
    begun = time.monotonic()
    assert main(["broker-api-versions", "--bootstrap-server", "127.0.0.1:1"]) == 1
    assert time.monotonic() - begun < RETRY_SECONDS
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert "127.0.0.1:1" in printed.err


def test_command_config_may_enable_retries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "patient.properties"
    file.write_text("retries=1000000\nrequest.timeout.ms=200\ndefault.api.timeout.ms=300\n")
    requests = ("--bootstrap-server", "127.0.0.1:1", "--command-config", str(file))
    assert main(["broker-api-versions", *requests]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err

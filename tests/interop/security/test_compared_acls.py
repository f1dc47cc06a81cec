"""`ottla acls` and Apache Kafka's AclCommand print the same output and have the same effect, on both brokers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from scripts import apache_kafka
from tests.interop import kafka_jars
from tests.interop.kafka_jars import run_tool, server

from ottla import Broker
from ottla.cli.main import main
from ottla.net.ports import free_port

pytestmark = pytest.mark.interop

AUTHORIZER_CONFIGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
Tool = Callable[..., list[str]]
"""Arguments after the address → the printed lines, sorted, since Java prints ACLs in no particular order."""


@pytest.fixture(scope="module", params=["ottla", "kafka-4.3.1"])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with an authorizer."""
    if request.param == "ottla":
        with Broker(AUTHORIZER_CONFIGS) as broker:
            yield broker.bootstrap_servers
        return
    version = request.param.removeprefix("kafka-")
    reason = apache_kafka.missing(version)
    if reason:
        pytest.skip(reason)
    directory, port = tmp_path_factory.mktemp("kafka"), free_port(in_a_row=2)
    command = kafka_jars.prepare_node(directory, port, version)
    with (directory / "server.properties").open("a") as properties:
        properties.writelines(f"{key}={value}\n" for key, value in AUTHORIZER_CONFIGS.items())
    with server(command, port, directory / "out.txt", kill=True):
        yield f"127.0.0.1:{port}"


@pytest.fixture
def theirs(guarded: str) -> Tool:
    def run(*arguments: str) -> list[str]:
        done = run_tool("org.apache.kafka.tools.AclCommand", "--bootstrap-server", guarded, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return lines(done.stdout)

    return run


@pytest.fixture
def ours(guarded: str, capsys: pytest.CaptureFixture[str]) -> Tool:
    def run(*arguments: str) -> list[str]:
        assert main(["acls", "--bootstrap-server", guarded, *arguments]) == 0
        return lines(capsys.readouterr().out)

    return run


def lines(printed: str) -> list[str]:
    assert not printed or printed.endswith("\n")
    return sorted(line.removeprefix(" \t").strip("\t") for line in printed.splitlines())


@pytest.mark.compatibility("Kafka's tools", "ACLs", "AclCommand, compared with ottla acls")
@pytest.mark.parametrize(
    ("resources", "rules"),
    [
        (
            ("--topic", "{}", "--group", "{}"),
            (
                "--allow-principal",
                "User:a",
                "--allow-host",
                "10.0.0.1",
                "--operation",
                "Read",
                "--operation",
                "Describe",
            ),
        ),
        (
            ("--topic", "{}", "--resource-pattern-type", "prefixed"),
            ("--allow-principal", "User:*", "--deny-principal", "User:CN=b,O=c", "--operation", "DescribeConfigs"),
        ),
        (("--cluster", "--delegation-token", "{}"), ("--deny-principal", "User:a", "--deny-host", "10.0.0.2")),
        (("--user-principal", "User:{}"), ("--allow-principal", "User:a", "--operation", "CreateTokens")),
        (("--topic", "{}", "--transactional-id", "{}"), ("--producer", "--idempotent", "--allow-principal", "User:a")),
        (
            ("--topic", "{}", "--group", "{}"),
            ("--consumer", "--allow-principal", "User:a", "--allow-principal", "User:b"),
        ),
    ],
)
def test_ottla_acls_prints_the_output_of_kafka_acls(
    resources: tuple[str, ...], rules: tuple[str, ...], ours: Tool, theirs: Tool
) -> None:
    name = f"r-{uuid.uuid4().hex[:8]}"
    named = tuple(text.format(name) for text in resources)
    reported = []
    for tool, other in ((theirs, ours), (ours, theirs)):
        added = tool("--add", *named, *rules)
        listed = tool("--list", *named)
        again = tool("--add", *named, *rules)
        assert any(line.startswith("Adding ACLs for resource") for line in added)
        assert any(line.startswith("Current ACLs for resource") for line in listed)
        assert any(line.endswith("already exists.") for line in again)
        assert other("--list", *named) == listed
        mine = tool("--list", "--principal", "User:a", "--principal", "User:unknown")
        assert tool("--remove", "--force", *named, *rules) == []
        assert other("--list", *named) == []
        reported.append((added, listed, again, mine))
    assert reported[0] == reported[1]


def test_acls_with_pattern_type_match_are_listed_and_removed_as_by_kafka_acls(ours: Tool, theirs: Tool) -> None:
    name = f"r-{uuid.uuid4().hex[:8]}"
    reported = []
    for tool in (theirs, ours):
        for pattern, resource in (
            ("literal", name),
            ("literal", "*"),
            ("prefixed", name[:4]),
            ("prefixed", f"{name}-"),
        ):
            tool("--add", "--topic", resource, "--resource-pattern-type", pattern, "--allow-principal", "User:a")
        listed = {
            pattern: tool("--list", "--topic", name, "--resource-pattern-type", pattern)
            for pattern in ("any", "match", "literal", "prefixed")
        }
        tool("--remove", "--force", "--topic", name, "--resource-pattern-type", "match")
        left = tool("--list")
        tool("--remove", "--force", "--topic", f"{name}-", "--resource-pattern-type", "any")
        reported.append((listed, left, tool("--list")))
    assert reported[0] == reported[1]
    listed, left, nothing = reported[0]
    assert {pattern: sum("principal=" in line for line in actual) for pattern, actual in listed.items()} == {
        "any": 1,
        "match": 3,
        "literal": 1,
        "prefixed": 0,
    }
    assert (sum("principal=" in line for line in left), nothing) == (1, [])

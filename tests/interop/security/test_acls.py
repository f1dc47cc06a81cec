"""ACLs that Apache Kafka's tool adds through our broker or in ZooKeeper, and our ACLs as listed by that tool."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripts import apache_kafka, maven
from tests.crash.process import BrokerProcess
from tests.interop import kafka_jars
from tests.interop.eventually import eventually
from tests.interop.kafka_jars import run_tool, server

from ottla import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    Broker,
    KafkaAdminClient,
    KafkaProducer,
    NewTopic,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    errors,
)
from ottla.cluster.broker.acl_store import AclStore
from ottla.cluster.store.zookeeper_store import ZooKeeperMetadataStore
from ottla.net.ports import free_port
from ottla.protocol.header import decode_response_header, encode_request_header
from ottla.protocol.message import decode, encode
from ottla.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

pytestmark = pytest.mark.interop

WITH_ZOOKEEPER = "3.9.2"
SECONDS = 30.0
ALLOW, DENY = ACLPermissionType.ALLOW, ACLPermissionType.DENY
LITERAL, PREFIXED = ACLResourcePatternType.LITERAL, ACLResourcePatternType.PREFIXED
AUTHORIZER_CONFIGS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
ENTRY = re.compile(r"\(principal=(\S+), host=(\S+), operation=(\S+), permissionType=(\S+)\)")
DEPRECATED = (
    "Warning: support for ACL configuration directly through the authorizer is deprecated and will be removed in a "
    "future release. Please use --bootstrap-server instead to set ACLs through the admin client."
)
"""Warning that the tool prints with ZooKeeper."""
RESOURCES = re.compile(r"ResourcePattern\(resourceType=(\S+), name=(\S+), patternType=(\S+)\)")
Tool = Callable[..., str]


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr.removeprefix(DEPRECATED).strip(), done.stderr
    return done.stdout


def parse_acls(text: str) -> set[ACL]:
    """Return the ACLs that Kafka's tool has printed."""
    actual, resources = set(), None
    for line in text.splitlines():
        if (heading := RESOURCES.search(line)) is not None:
            kind, name, how = heading.groups()
            resources = ResourcePattern(ResourceType[kind], name, ACLResourcePatternType[how])
        if (entry := ENTRY.search(line)) is not None:
            assert resources is not None
            principal, host, operation, permission = entry.groups()
            actual.add(ACL(principal, host, ACLOperation[operation], ACLPermissionType[permission], resources))
    return actual


TOPIC = ResourcePattern(ResourceType.TOPIC, "orders")
GROUPS = ResourcePattern(ResourceType.GROUP, "app-", PREFIXED)
WRITERS = {
    ACL("User:alice", host, operation, ALLOW, TOPIC)
    for operation in (ACLOperation.WRITE, ACLOperation.DESCRIBE, ACLOperation.CREATE)
    for host in ("10.0.0.1", "10.0.0.2")
}
TO_WRITE = ("--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
FROM = ("--allow-host", "10.0.0.1", "--allow-host", "10.0.0.2")
TO_READ = ("--add", "--deny-principal", "User:*", "--operation", "Read", "--group", "app-")
AS_PREFIX = ("--resource-pattern-type", "prefixed")
READERS = {ACL("User:*", "*", ACLOperation.READ, DENY, GROUPS)}


def add_list_and_remove(tool: Tool) -> None:
    """Add, list and remove ACLs with the tool."""
    tool(*TO_WRITE, *FROM)
    tool(*TO_READ, *AS_PREFIX)
    assert parse_acls(tool("--list")) == WRITERS | READERS
    assert parse_acls(tool("--list", "--topic", "orders")) == WRITERS
    assert parse_acls(tool("--list", "--group", "app-7", "--resource-pattern-type", "match")) == READERS
    assert parse_acls(tool("--list", "--group", "app-7")) == set()
    tool("--remove", "--force", "--allow-principal", "User:alice", "--operation", "Create", *FROM, "--topic", "orders")
    left = {acl for acl in WRITERS if acl.operation is not ACLOperation.CREATE}
    assert parse_acls(tool("--list")) == left | READERS
    tool("--remove", "--force", "--topic", "orders")
    assert parse_acls(tool("--list")) == READERS
    tool("--remove", "--force", "--group", "app-", *AS_PREFIX)
    assert parse_acls(tool("--list")) == set()


def may_describe(admin: KafkaAdminClient) -> bool:
    """Return whether ACLs allow the client to describe ACLs."""
    try:
        admin.describe_acls()
    except errors.ClusterAuthorizationFailedError:
        return False
    return True


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> str:
    """Return a connect string with a chroot of this module."""
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    pytest.importorskip("kazoo")
    return f"{request.getfixturevalue('zookeeper').connect}/rules"


@pytest.mark.compatibility("Kafka's tools", "ACLs", "AclCommand: add, list, remove")
def test_kafka_acls_tool_adds_lists_and_removes_acls_through_our_broker() -> None:
    with Broker({**AUTHORIZER_CONFIGS, "super.users": "User:ANONYMOUS"}) as node:
        at = ("--bootstrap-server", node.bootstrap_servers)
        add_list_and_remove(
            lambda *arguments: succeeded(run_tool("org.apache.kafka.tools.AclCommand", *at, *arguments))
        )


def test_kafka_acls_tool_reports_that_no_authorizer_is_configured(bootstrap: str) -> None:
    done = run_tool("org.apache.kafka.tools.AclCommand", "--bootstrap-server", bootstrap, "--list")
    assert "No Authorizer is configured" in done.stdout + done.stderr


def test_acls_in_zookeeper_are_shared_with_kafkas_authorizer(
    connect: str, tmp_path: Path, compatibility: Callable[[str, str, str, list[str]], None]
) -> None:
    reason = apache_kafka.missing(WITH_ZOOKEEPER)
    if reason:
        pytest.skip(reason)

    def theirs(*arguments: str) -> str:
        at = ("--authorizer-properties", f"zookeeper.connect={connect}")
        return succeeded(apache_kafka.tool("kafka.admin.AclCommand", *at, *arguments, version=WITH_ZOOKEEPER))

    options: dict[str, Any] = {"broker.id": 0, "zookeeper.connect": connect, **AUTHORIZER_CONFIGS}
    with (
        BrokerProcess(tmp_path, **options) as node,
        KafkaAdminClient(bootstrap_servers=node.bootstrap) as admin,
    ):
        with pytest.raises(errors.ClusterAuthorizationFailedError):
            admin.describe_acls()
        theirs("--add", "--allow-principal", "User:ANONYMOUS", "--operation", "Alter", "--cluster")
        eventually(lambda: may_describe(admin), SECONDS)
        theirs(*TO_WRITE, *FROM)
        theirs(*TO_READ, *AS_PREFIX)
        cluster = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
        own = ACL("User:ANONYMOUS", "*", ACLOperation.ALTER, ALLOW, cluster)
        eventually(lambda: set(admin.describe_acls()) == {*WRITERS, *READERS, own}, SECONDS)
        special = [
            ACL("User:CN=ä,O=b", "h", ACLOperation.IDEMPOTENT_WRITE, DENY, cluster),
            ACL("User:bob", "*", ACLOperation.DESCRIBE_CONFIGS, ALLOW, ResourcePattern(ResourceType.TOPIC, "*")),
            ACL("User:bob", "*", ACLOperation.WRITE, ALLOW, ResourcePattern(ResourceType.TRANSACTIONAL_ID, "a:b c")),
            ACL("User:bob", "*", ACLOperation.ALL, DENY, ResourcePattern(ResourceType.TRANSACTIONAL_ID, "t", PREFIXED)),
            ACL("User:bob", "*", ACLOperation.CREATE_TOKENS, ALLOW, ResourcePattern(ResourceType.USER, "User:eve")),
        ]
        assert admin.create_acls(special) == special
        actual = theirs("--list")
        for acl in special:
            entry = f"(principal={acl.principal}, host={acl.host}, operation={acl.operation.name}, "
            assert entry + f"permissionType={acl.permission_type.name})" in actual
        writers = ACLFilter(resource_pattern=ResourcePatternFilter(ResourceType.TOPIC, "orders", LITERAL))
        assert set(admin.delete_acls([writers])[writers]) == WRITERS
        assert parse_acls(theirs("--list", "--topic", "orders", "--resource-pattern-type", "literal")) == set()
        theirs("--remove", "--force", "--cluster")
        eventually(lambda: not may_describe(admin), SECONDS)
    what = ["AclAuthorizer's rules are obeyed, ours are read by it"]
    compatibility("Apache Kafka", WITH_ZOOKEEPER, "ACLs in ZooKeeper", what)


def test_acl_added_on_one_broker_applies_on_all(connect: str, tmp_path: Path) -> None:
    connect += "-of-two"
    cluster = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
    every = ("User:ANONYMOUS", "*")
    brokers = ACL(*every, ACLOperation.CLUSTER_ACTION, ALLOW, cluster)
    clients = [ACL(*every, operation, ALLOW, cluster) for operation in (ACLOperation.CREATE, ACLOperation.ALTER)]
    writing = ACL(*every, ACLOperation.WRITE, ALLOW, TOPIC)

    async def allow_cluster_actions() -> None:
        """Add the ACL without which the brokers reject each other's requests."""
        registry = ZooKeeperMetadataStore(connect)
        await registry.open()
        store = AclStore(registry, lambda _: None)
        await store.start()
        assert await store.add([brokers, *clients, writing]) == [None] * 4
        await store.close()
        await registry.close()

    asyncio.run(allow_cluster_actions())
    options: dict[str, Any] = {"zookeeper.connect": connect, **AUTHORIZER_CONFIGS}
    with (
        BrokerProcess(tmp_path / "0", **options, **{"broker.id": 0}) as one,
        BrokerProcess(tmp_path / "1", **options, **{"broker.id": 1}) as two,
        KafkaAdminClient(bootstrap_servers=one.bootstrap) as admin,
    ):
        layout = {0: [0, 1], 1: [1, 0]}
        admin.create_topics([NewTopic("orders", replica_assignments=layout)], wait_for_metadata=True)
        with KafkaProducer(bootstrap_servers=one.bootstrap, acks="all", enable_idempotence=False) as producer:
            for partition in layout:
                producer.send("orders", b"x", partition=partition).get(SECONDS)
        eventually(
            lambda: all(len(p.isr) == 2 for p in admin.describe_topics(["orders"])["orders"].partitions), SECONDS
        )
        assert [describe_acls_error(node) for node in (one, two)] == [0, 0]
        deny = ACL(*every, ACLOperation.DESCRIBE, DENY, cluster)
        assert admin.create_acls([deny]) == [deny]
        eventually(
            lambda: describe_acls_error(one) == describe_acls_error(two) == errors.ClusterAuthorizationFailedError.code,
            SECONDS,
        )
        denials = ACLFilter(permission_type=DENY)
        assert admin.delete_acls([denials]) == {denials: [deny]}
        eventually(lambda: describe_acls_error(one) == describe_acls_error(two) == 0, SECONDS)


def describe_acls_error(node: BrokerProcess) -> int:
    """Return the error code of a DescribeAcls request to this broker."""
    request = DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
    frame = bytearray()
    encode_request_header(frame, request.API_KEY, 3, 7, "test")
    encode(request, 3, frame)
    with (
        socket.create_connection(("127.0.0.1", node.port), SECONDS) as connection,
        connection.makefile("rb") as response,
    ):
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        body = memoryview(response.read(int.from_bytes(response.read(4), "big")))
    _, pos = decode_response_header(body, request.API_KEY, 3)
    return int(decode(DescribeAclsResponse, body, 3, pos).error_code)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.11:0.9.0.1", "2.12:1.1.1", "2.12:2.8.2"])
def test_older_kafka_acls_tools_read_and_write_acls_in_zookeeper(version: str, connect: str, tmp_path: Path) -> None:
    reason = maven.missing()
    if reason:
        pytest.skip(reason)
    scala, _, number = version.partition(":")
    connect += number
    libs = maven.jars(f"kafka_{scala}-{number}", f"org.apache.kafka:kafka_{scala}:{number}", maven.NO_LOGS)
    command = ["java", "-Xmx128M", *apache_kafka.SHORT_LIVED, "-cp", f"{libs}/*", "kafka.admin.AclCommand"]

    def theirs(*arguments: str) -> str:
        at = ("--authorizer-properties", f"zookeeper.connect={connect}")
        done = subprocess.run(
            [*command, *at, *arguments], input="y\n", capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    options: dict[str, Any] = {
        "broker.id": 0,
        "zookeeper.connect": connect,
        **AUTHORIZER_CONFIGS,
        "super.users": "User:ANONYMOUS",
    }
    with BrokerProcess(tmp_path, **options) as node, KafkaAdminClient(bootstrap_servers=node.bootstrap) as admin:
        ours = ACL("User:bob", "*", ACLOperation.DESCRIBE, ALLOW, TOPIC)
        assert admin.create_acls([ours]) == [ours]
        theirs("--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
        alice = ACL("User:alice", "*", ACLOperation.READ, ALLOW, TOPIC)
        eventually(lambda: set(admin.describe_acls()) == {ours, alice}, SECONDS)
        assert {name for name in ("User:alice", "User:bob") if name in theirs("--list")} == {"User:alice", "User:bob"}
        theirs("--remove", "--topic", "orders")
        eventually(lambda: admin.describe_acls() == [], SECONDS)


def test_acls_of_a_kraft_node_are_migrated(
    tmp_path: Path, compatibility: Callable[[str, str, str, list[str]], None]
) -> None:
    reason = apache_kafka.missing()
    if reason:
        pytest.skip(reason)
    port = free_port(in_a_row=2)
    command = kafka_jars.prepare_node(tmp_path, port)
    restricted = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    restricted |= {"super.users": "User:ANONYMOUS"}
    with (tmp_path / "server.properties").open("a") as properties:
        properties.writelines(f"{name}={value}\n" for name, value in restricted.items())
    deny = ACL("User:bob", "10.0.0.1", ACLOperation.DESCRIBE_CONFIGS, DENY, ResourcePattern(ResourceType.TOPIC, "*"))
    removed = ACL("User:eve", "*", ACLOperation.ALL, ALLOW, TOPIC)
    rules = [*WRITERS, *READERS, deny]
    with (
        server(command, port, tmp_path / "out.txt"),
        KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}") as admin,
    ):
        admin.create_topics([NewTopic("orders", 1, 1)])
        admin.create_acls([*rules, removed])
        only_eve = ACLFilter(principal="User:eve")
        assert admin.delete_acls([only_eve]) == {only_eve: [removed]}
    with (
        Broker(restricted, data_dir=tmp_path / "log") as node,
        KafkaAdminClient(bootstrap_servers=node.bootstrap_servers) as admin,
    ):
        assert set(admin.describe_acls()) == set(rules)
    what = ["its rules (KRaft) are taken over"]
    compatibility("Apache Kafka", apache_kafka.VERSION, "ACLs", what)

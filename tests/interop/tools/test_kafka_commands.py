"""The commands of docs/kafka-commands.md run, with the exit codes and the outputs described there."""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from ottla import Broker, KafkaAdminClient, KafkaConsumer, KafkaProducer, KafkaShareConsumer, NewTopic, TopicPartition
from ottla.cli.main import main
from ottla.errors import GroupIdNotFoundError

pytestmark = pytest.mark.interop

PAGE = Path(__file__).parents[3] / "docs" / "kafka-commands.md"
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="secret" user_admin="secret";'
)
SECURED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": "AclAuthorizer",
    "super.users": "User:admin",
    "delegation.token.secret.key": "key",
}
LOGIN = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}\n"
MOVE = '{"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [1, 2]}]}'


class Run(NamedTuple):
    """A command, its exit code, and a pattern in its output.

    `B` stands for the address of the cluster, and `S` for that of the secured broker with `--command-config`; `DIR` is
    the directory with the files.
    """

    command: str
    output: str = ""
    code: int = 0


ROWS: dict[str, list[Run]] = {
    # Quick start
    "kafka-storage random-uuid": [
        Run("storage random-uuid", "needs no formatting", 2),
        Run("storage format --standalone -t x -c server.properties", "needs no formatting", 2),
    ],
    "kafka-topics --create, --describe": [
        Run("topics --create --topic quickstart-events B", "Created topic quickstart-events"),
        Run("topics --describe --topic quickstart-events B", r"PartitionCount: 1.*\n.*Elr: \tLastKnownElr: "),
    ],
    "kafka-topics without": [Run("topics", "usage: ottla topics", 2)],
    "kafka-console-producer, kafka-console-consumer": [
        Run("console-producer --topic quickstart-events B"),
        Run("console-consumer --topic quickstart-events --from-beginning --max-messages 2 B", "first\nsecond"),
    ],
    "connect-standalone": [Run("connect-standalone config/connect-standalone.properties", "Kafka Connect", 2)],
    # Operations
    "kafka-topics --create --partitions 20": [
        Run("topics B --create --topic my-topic --partitions 20 --replication-factor 3 --config x=y", "name: x", 1),
        Run("topics B --create --topic my-topic --partitions 20 --replication-factor 3 --config retention.ms=1000"),
    ],
    "kafka-topics --alter": [
        Run("topics B --alter --topic my-topic --partitions 40"),
        Run("topics B --create --topic old"),
        Run("topics B --delete --topic old"),
    ],
    "kafka-configs --entity-type topics --alter --add-config": [
        Run("configs B --entity-type topics --entity-name my-topic --alter --add-config segment.ms=2000", "Completed"),
    ],
    "kafka-configs --entity-type topics --alter --delete-config": [
        Run(
            "configs B --entity-type topics --entity-name my-topic --alter --delete-config x",
            "Not set, so not removed: x",
        ),
        Run("configs B --entity-type topics --entity-name my-topic --alter --delete-config segment.ms", "Completed"),
    ],
    "kafka-leader-election": [Run("leader-election B --election-type preferred --all-topic-partitions")],
    "kafka-groups --list": [Run("groups B --list", r"my-group +Classic +consumer")],
    "kafka-consumer-groups --list": [
        Run("consumer-groups B --list", "my-group"),
        Run("consumer-groups B --describe --group my-group", r"my-group +visits +0 +2 +2 +0"),
        Run("consumer-groups B --describe --group my-group --members --verbose", "no active members"),
        Run("consumer-groups B --describe --group my-group --state", "Empty"),
    ],
    "kafka-consumer-groups --reset-offsets": [
        Run("consumer-groups B --reset-offsets --group my-group --topic visits --to-latest", r"visits +0 +2"),
    ],
    "kafka-consumer-groups --delete": [
        Run("consumer-groups B --delete --group my-group --group my-other-group", "my-other-group", 1),
    ],
    "kafka-share-groups --list": [
        Run("share-groups B --list", "share"),
        Run("share-groups B --describe --group share --members", "no active members"),
        Run("share-groups B --describe --group share --state", "Empty"),
    ],
    "kafka-share-groups --describe": [Run("share-groups B --describe --group share", r"share +visits +0")],
    "kafka-share-groups --reset-offsets": [
        Run("share-groups B --reset-offsets --group share --topic visits --to-latest --execute", "visits"),
        Run("share-groups B --delete-offsets --group share --topic visits", "visits"),
        Run("share-groups B --delete --group share", "share"),
    ],
    "kafka-reassign-partitions": [
        Run(
            "reassign-partitions B --topics-to-move-json-file DIR/topics.json --broker-list 1,2 --generate", "Proposed"
        ),
        Run("reassign-partitions B --reassignment-json-file DIR/move.json --execute --throttle 50000000", "started"),
        Run("reassign-partitions B --reassignment-json-file DIR/move.json --additional --execute --throttle 7000000"),
        Run("reassign-partitions B --list"),
        Run("reassign-partitions B --reassignment-json-file DIR/move.json --verify", "moved-0"),
    ],
    "kafka-configs --describe --entity-type brokers": [
        Run("configs B --describe --entity-type brokers", "Dynamic configs for broker"),
        Run("configs B --describe --entity-type topics", "Dynamic configs for topic my-topic"),
    ],
    "kafka-configs --alter --add-config cordoned": [
        Run("configs B --alter --entity-type brokers --entity-name 2 --add-config cordoned.log.dirs=*", "Completed"),
        Run("configs B --alter --entity-type brokers --entity-name 2 --delete-config cordoned.log.dirs", "Completed"),
    ],
    "kafka-cluster cluster-id": [Run("cluster cluster-id B", "Cluster ID: ")],
    "kafka-cluster unregister": [Run("cluster unregister --id 0 B", "does not support the broker unregistration", 1)],
    "kafka-configs --alter --add-config 'producer_byte_rate": [
        Run(
            "configs B --alter --add-config producer_byte_rate=1024,request_percentage=200 "
            "--entity-type users --entity-name user1 --entity-type clients --entity-name client-a",
            "Completed",
        ),
        Run("configs B --alter --add-config consumer_byte_rate=2048 --entity-type users --entity-default", "Completed"),
        Run(
            "configs B --describe --entity-type users --entity-name user1 --entity-type clients --entity-name client-a",
            "user-principal 'user1', client-id 'client-a' are producer_byte_rate=1024.0",
        ),
    ],
    "kafka-features describe": [Run("features B describe", r"Feature: transaction.version")],
    "kafka-features upgrade --release-version": [
        Run("features B upgrade --release-version 4.0", "metadata.version", 1)
    ],
    "kafka-features version-mapping": [
        Run("features B version-mapping", "metadata.version"),
        Run("features B feature-dependencies --feature transaction.version=2", "transaction.version=2"),
    ],
    "kafka-features upgrade --feature transaction": [
        Run("features B upgrade --feature transaction.version=2", "transaction.version"),
    ],
    "kafka-features upgrade --feature eligible": [
        Run("features B upgrade --feature eligible.leader.replicas.version=1", "eligible.leader.replicas.version", 1),
    ],
    "kafka-transactions list": [Run("transactions B list", "TransactionalId")],
    "kafka-transactions find-hanging": [Run("transactions B find-hanging --broker-id 0", "Topic\tPartition")],
    "kafka-configs --entity-type groups": [
        Run("configs B --alter --entity-type groups --entity-name g --add-config consumer.session.timeout.ms=50000"),
    ],
    "kafka-client-metrics --list": [
        Run("client-metrics B --list"),
        Run("log-dirs B --describe", '"isFuture":false'),
        Run("get-offsets B --topic visits", "visits:0:2"),
        Run("broker-api-versions B", r"Produce\(0\): 0 to"),
    ],
    "kafka-producer-perf-test": [
        Run(
            "producer-perf-test --topic visits --num-records 5 --record-size 10 --throughput -1 --producer-props B2",
            "5 records sent",
        ),
    ],
    "kafka-console-consumer --property": [
        Run(
            "console-consumer --topic visits --from-beginning --max-messages 1 --property print.offset=true B",
            "Offset:",
        ),
        Run("console-consumer --topic visits --max-messages 1 --from-beginning B --formatter-property print.key=true"),
    ],
    "kafka-topics --create --config remote": [
        Run("topics B --create --topic remote --config remote.storage.enable=true", "is disabled in", 1),
    ],
    "kafka-metadata-quorum": [
        Run("metadata-quorum B describe --status", "no KRaft quorum", 2),
        Run("metadata-shell", "no KRaft quorum", 2),
    ],
    # Security
    "kafka-configs --entity-type brokers --alter --add-config listener.name.internal": [
        Run(
            "configs B --entity-type brokers --entity-name 0 --alter "
            "--add-config listener.name.internal.ssl.endpoint.identification.algorithm="
        ),
    ],
    "kafka-console-producer --producer.config": [
        Run("console-producer --topic visits B --producer.config DIR/none.properties", "none.properties", 1),
        Run("topics --list S", ""),
    ],
    "kafka-configs --entity-type users --alter": [
        Run(
            "configs S --alter --entity-type users --entity-name alice --add-config SCRAM-SHA-256=[password=x]",
            "Completed",
        ),
        Run("configs S --describe --entity-type users --entity-name alice", "SCRAM-SHA-256=iterations=4096"),
        Run("configs S --alter --entity-type users --entity-name alice --delete-config SCRAM-SHA-256", "Completed"),
    ],
    "the same with --zookeeper": [
        Run("configs --zookeeper localhost:2181 --describe --entity-type users", "--bootstrap-server", 1),
    ],
    "kafka-delegation-tokens": [
        Run("delegation-tokens S --create --max-life-time-period -1 --renewer-principal User:admin", "HMAC"),
        Run("delegation-tokens S --create --max-life-time-period -1 --owner-principal User:owner1", "owner1"),
        Run("delegation-tokens S --describe --owner-principal User:owner1", "owner1"),
        Run("delegation-tokens B --create --max-life-time-period -1", "not allowed on this connection", 1),
    ],
    "kafka-acls --add --allow-principal User:tokenRequester": [
        Run(
            "acls S --add --allow-principal User:tokenRequester --operation CreateTokens --operation DescribeTokens "
            "--user-principal owner1",
            "CREATE_TOKENS",
        ),
    ],
    "kafka-acls --list": [
        Run("acls S --add --allow-principal User:* --operation Read --topic Test- --resource-pattern-type prefixed"),
        Run("acls S --list --topic Test-topic --resource-pattern-type match", "Test-"),
        Run("acls S --list --topic '*'"),
    ],
    "kafka-acls --bootstrap-controller": [Run("acls S2 --list", "Test-")],
    "kafka-acls --add, --list, --remove": [
        Run("acls S --add --allow-principal User:Bob --allow-host 198.51.100.0 --operation Read --topic t", "User:Bob"),
        Run("acls S --add --deny-principal User:Eve --deny-host 198.51.100.3 --operation Read --topic t", "DENY"),
        Run("acls S --add --allow-principal User:Bob --producer --topic t", "IDEMPOTENT_WRITE|WRITE"),
        Run("acls S --add --allow-principal User:Bob --consumer --topic t --group g", "READ"),
        Run("acls S --remove --allow-principal User:Bob --operation Read --topic t --force"),
    ],
    "kafka-acls --authorizer-properties": [
        Run("acls --authorizer-properties zookeeper.connect=h:2181 --list", "--bootstrap-server", 1),
    ],
    "zookeeper-security-migration": [Run("zookeeper-security-migration", "zookeeper.set.acl", 2)],
}
NOT_RUN = (
    "docker run",
    "kafka-server-start",
    "zookeeper-server-start",
    "rm -rf",
    "kafka-dump-log",
    "connect-mirror-maker",
    "zookeeper-shell",
    "keytool",
    "kafka-storage format",
    "JMX_PORT",
)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Start the brokers, and return the replacements of the placeholders in commands."""
    folder = tmp_path_factory.mktemp("commands")
    (folder / "login.properties").write_text(LOGIN)
    (folder / "topics.json").write_text('{"version": 1, "topics": [{"topic": "moved"}]}')
    (folder / "move.json").write_text(MOVE)
    with Broker(brokers=3) as cluster, Broker(SECURED) as secured:
        servers = cluster.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("visits", 1, 3), NewTopic("moved", 1, 2)])
        with KafkaProducer(bootstrap_servers=servers) as producer:
            for value in (b"first", b"second"):
                producer.send("visits", value)
        with KafkaConsumer(
            "visits", group_id="my-group", bootstrap_servers=servers, auto_offset_reset="earliest"
        ) as consumer:
            for _ in range(2):
                next(consumer)
        with (
            KafkaAdminClient(bootstrap_servers=servers) as admin,
            KafkaShareConsumer("visits", group_id="share", bootstrap_servers=servers) as shared,
        ):
            offsets: dict[TopicPartition, int] = {}
            while not offsets:
                shared.poll(timeout_ms=200)
                with suppress(GroupIdNotFoundError):
                    offsets = admin.list_share_group_offsets("share")
        login = f"--command-config {folder / 'login.properties'}"
        yield {
            "B": f"--bootstrap-server {servers}",
            "B2": f"bootstrap.servers={servers}",
            "S": f"--bootstrap-server {secured.bootstrap_servers} {login}",
            "S2": f"--bootstrap-controller {secured.bootstrap_servers} {login}",
            "DIR": str(folder),
        }


def page_rows() -> list[str]:
    """Return the commands of all rows of the page, without the marks of code."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [line.split(" | ")[0].removeprefix("| ").replace("`", "") for line in lines if line.startswith("| ")]
    return [cell for cell in cells if cell != "command"]


def test_every_row_of_the_page_is_run_or_excluded() -> None:
    rows, names = page_rows(), (*ROWS, *NOT_RUN)
    assert [row for row in rows if not row.startswith(names)] == []
    assert [name for name in names if not any(row.startswith(name) for row in rows)] == []


@pytest.mark.parametrize("row", ROWS)
def test_command_of_the_page_runs(
    row: str, places: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in ROWS[row]:
        words = [places.get(word, word) for word in run.command.split(" ")]
        command = shlex.split(" ".join(words).replace("DIR", places["DIR"]))
        lines = io.BytesIO(b"first\nsecond\n")
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=lines, isatty=lambda: False))
        try:
            code: object = main(command)
        except SystemExit as ended:
            code = ended.code
        printed = "".join(capsys.readouterr())
        assert code == run.code, f"{run.command}: {printed}"
        assert re.search(run.output, printed), f"{run.command}: {printed}"

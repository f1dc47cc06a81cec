"""`ottla reassign-partitions` with three brokers of Ottla and Apache Kafka: throttles, cancellation and rollback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from tests.chaos.cluster import Cluster
from tests.chaos.health import Health
from tests.chaos.peers import PEERS
from tests.interop.eventually import eventually as until_found

from ottla import KafkaAdminClient, KafkaProducer, NewTopic
from ottla.cli.main import main
from ottla.client.admin.configs import BROKER, TOPIC, ConfigResource

pytestmark = [pytest.mark.interop, pytest.mark.slow]

eventually = partial(until_found, seconds=60.0)
RECORDS, RECORD_BYTES = 40, 100_000
"""More than one fetch of a follower returns (replica.fetch.max.bytes), so that the throttle has an effect."""

Tool = Callable[..., Any]


@pytest.fixture(params=["ottla", "kafka"])
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    peer = PEERS[request.param]
    if reason := peer.missing():
        pytest.skip(reason)
    with Cluster(tmp_path, peer) as running:
        Health(running).wait_for_brokers()
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as client:
        yield client


@pytest.fixture
def tool(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Return a function that runs the command and returns its JSON output, or its error (exit code 1)."""

    def call(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        command = ["reassign-partitions", "--bootstrap-server", cluster.bootstrap, *arguments, "--json"]
        actual, captured = main(command), capsys.readouterr()
        assert actual == code, captured.err
        return captured.err if code else json.loads(captured.out)

    return call


def write(path: Path, *partitions: tuple[str, int, list[int]]) -> str:
    fields = [{"topic": topic, "partition": number, "replicas": replicas} for topic, number, replicas in partitions]
    path.write_text(json.dumps({"version": 1, "partitions": fields}))
    return str(path)


def throttles(admin: KafkaAdminClient, topic: str) -> dict[tuple[str, str], str | None]:
    resources = [ConfigResource(TOPIC, topic), *(ConfigResource(BROKER, str(broker)) for broker in (1, 2, 3))]
    described = admin.describe_configs(resources).items()
    return {
        (resource.name, e.name): e.value
        for resource, entries in described
        for e in entries.values()
        if e.is_modified and "throttled" in e.name
    }


def status(tool: Tool, file: str) -> str:
    (partition,) = tool("--verify", "--reassignment-json-file", file)["partitions"]
    actual: str = partition["status"]
    return actual


def test_throttled_reassignment_is_listed_cancelled_and_completed(
    cluster: Cluster, admin: KafkaAdminClient, tool: Tool, tmp_path: Path
) -> None:
    admin.create_topics([NewTopic("held", replica_assignments={0: [1, 2]})])
    Health(cluster).wait_for_replicas("held", [(1, 2)])
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for future in [producer.send("held", bytes(RECORD_BYTES)) for _ in range(RECORDS)]:
            future.get(30)
    moves = write(tmp_path / "moves.json", ("held", 0, [3, 1]))
    execute = ("--execute", "--reassignment-json-file", moves)

    output = tool(*execute, "--throttle", "1000")
    assert output["current"]["partitions"][0]["replicas"] == [1, 2]
    limits = {
        ("held", "leader.replication.throttled.replicas"): "0:1,0:2",
        ("held", "follower.replication.throttled.replicas"): "0:3",
        **{(str(b), f"{k}.replication.throttled.rate"): "1000" for b in (1, 2, 3) for k in ("leader", "follower")},
    }
    eventually(lambda: throttles(admin, "held") == limits)
    (moving,) = tool("--list")["reassignments"]
    assert (moving["topic"], moving["adding_replicas"], moving["removing_replicas"]) == ("held", [3], [2])
    assert status(tool, moves) == "in progress"
    assert throttles(admin, "held") == limits
    assert "there is an existing partition assignment.  Use --additional" in tool(*execute, code=1)

    assert tool("--cancel", "--reassignment-json-file", moves)["cancelled"] == [{"topic": "held", "partition": 0}]
    Health(cluster).wait_for_replicas("held", [(1, 2)])
    eventually(lambda: not throttles(admin, "held"))  # brokers of Apache Kafka apply their own configs with a delay

    tool(*execute, "--throttle", "1000")
    assert status(tool, moves) == "in progress"
    tool(*execute, "--additional", "--throttle", "100000000")
    eventually(lambda: status(tool, moves) == "completed")
    Health(cluster).wait_for_replicas("held", [(3, 1)])
    eventually(lambda: not throttles(admin, "held"))


def test_generated_reassignment_moves_replicas_off_a_broker_and_back(
    cluster: Cluster, admin: KafkaAdminClient, tool: Tool, tmp_path: Path
) -> None:
    before = [(1, 2), (2, 3), (3, 1)]
    admin.create_topics([NewTopic("drained", replica_assignments=dict(enumerate(before)))])
    Health(cluster).wait_for_replicas("drained", before)
    topics = tmp_path / "topics.json"
    topics.write_text('{"version":1,"topics":[{"topic":"drained"}]}')
    output = tool("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,3")
    for name, after in (("proposed", [(1, 3), (3, 1), (1, 3)]), ("current", before)):
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(output[name]))
        tool("--execute", "--reassignment-json-file", str(file))
        eventually(lambda: not tool("--list")["reassignments"])
        Health(cluster).wait_for_replicas("drained", after)
        verified = tool("--verify", "--reassignment-json-file", str(file))["partitions"]
        assert [p["status"] for p in verified] == ["completed"] * 3

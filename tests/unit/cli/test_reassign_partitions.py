"""`ottla reassign-partitions`: proposals, throttles, output, and a broker with two log directories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.interop.eventually import eventually

from ottla import Broker, KafkaAdminClient, NewTopic
from ottla.cli.main import main
from ottla.cli.reassign_partitions import throttles as throttles
from ottla.cli.reassign_partitions.plan import proposed, racks_of
from ottla.cli.reassign_partitions.plan_json import Move
from ottla.cli.reassign_partitions.states import ReplicaState, partition_states
from ottla.client.admin.configs import BROKER, TOPIC, ConfigResource
from ottla.client.admin.log_dirs import ReplicaLogDirInfo, TopicPartitionReplica
from ottla.client.admin.topics.partitions import PartitionReassignment
from ottla.client.core.metadata import PartitionInfo, TopicInfo
from ottla.errors import ConfigurationError, InvalidReplicationFactorError
from ottla.model import Node, TopicPartition

NOWHERE = ("reassign-partitions", "--bootstrap-server", "127.0.0.1:1")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def topic(name: str, *replicas: tuple[int, ...]) -> TopicInfo:
    partitions = tuple(
        PartitionInfo(name, i, replica_ids[0], 0, replica_ids, replica_ids, ())
        for i, replica_ids in enumerate(replicas)
    )
    return TopicInfo(name, UUID(int=1), False, partitions)


# Proposals


def test_proposal_assigns_leaders_round_robin_across_topics() -> None:
    result = proposed([topic("b", (1,)), topic("a", (1,))], dict.fromkeys((4, 5, 6)))
    assert result == {TopicPartition("a", 0): (4,), TopicPartition("b", 0): (5,)}


def test_proposal_keeps_the_replication_factor_of_each_partition() -> None:
    result = proposed([topic("t", (1, 2), (1, 2, 3), (1,))], dict.fromkeys((4, 5, 6)))
    assert [len(result[TopicPartition("t", p)]) for p in range(3)] == [2, 3, 1]


def test_proposal_spreads_replicas_over_racks() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b"}
    result = proposed([topic("t", *[(1, 2)] * 8)], racks)
    assert all(racks[first] != racks[second] for first, second in result.values())


def test_proposal_with_too_few_brokers_names_the_topic() -> None:
    with pytest.raises(InvalidReplicationFactorError, match="Topic t: replication factor 2"):
        proposed([topic("t", (1, 2))], {3: None})


def test_rack_awareness_requires_a_rack_of_every_broker() -> None:
    nodes = [Node(1, "h", 1, "a"), Node(2, "h", 2, "b"), Node(3, "h", 3, None)]
    assert racks_of(nodes, [2, 1], aware=True) == {2: "b", 1: "a"}
    assert racks_of(nodes, [3], aware=True) == {3: None}
    assert racks_of(nodes, [1, 3], aware=False) == {1: None, 3: None}
    with pytest.raises(ConfigurationError, match="Not all brokers have rack information. Add --disable-rack-aware"):
        racks_of(nodes, [1, 3], aware=True)
    with pytest.raises(ConfigurationError, match="--broker-list: Unknown broker id 4; brokers are 1,2,3"):
        racks_of(nodes, [4], aware=False)


# Throttles


def test_leader_and_follower_throttles_name_sources_and_destinations() -> None:
    result = throttles.routes({}, {T0: (2, 3), T1: (1, 2)}, {T0: (1, 2), T1: (2, 1)})
    assert throttles.topic_configs(result) == {
        "t": {throttles.LEADERS: "0:1,0:2,1:1,1:2", throttles.FOLLOWERS: "0:3"},
    }
    assert throttles.brokers_of(result) == {1, 2, 3}


def test_throttle_sources_of_a_moving_partition_are_those_of_its_first_move() -> None:
    moving = {T0: PartitionReassignment((3, 1), (3,), (1,)), T1: PartitionReassignment((1, 2), (2,), ())}
    result = throttles.routes(moving, {T0: (4,)}, {T0: (3, 1)})
    assert result == {
        T0: throttles.Route(frozenset({1}), frozenset({4})),
        T1: throttles.Route(frozenset({1}), frozenset({2})),
    }


def test_follower_throttle_is_removed_if_no_replica_is_added() -> None:
    result = throttles.routes({}, {T0: (2, 1)}, {T0: (1, 2)})
    assert throttles.topic_configs(result)["t"] == {throttles.LEADERS: "0:1,0:2", throttles.FOLLOWERS: None}


# Output


def test_partition_reassignment_is_completed_in_progress_or_inactive() -> None:
    moves = [Move(TopicPartition("t", p), (1, 2), ("any", "any"), "") for p in (3, 2, 1, 0)]
    moving = {T1: PartitionReassignment((1, 2, 3), (1, 2), (3,))}
    states = partition_states(moves, moving, {"t": topic("t", (1, 2), (3,), (2, 1))})
    assert [str(state) for state in states] == [
        "Reassignment of partition t-0 is completed.",
        "Reassignment of partition t-1 is still in progress.",
        "There is no active reassignment of partition t-2, but replica set is 2,1 rather than 1,2.",
        "There is no active reassignment of partition t-3, but replica set is  rather than 1,2.",
    ]
    assert states[1].as_json() == {
        "topic": "t",
        "partition": 1,
        "status": "in progress",
        "replicas": (1, 2, 3),
        "target_replicas": (1, 2),
    }


@pytest.mark.parametrize(
    ("info", "output"),
    [
        (None, "Partition t-0 cannot be found in any live log directory on broker 7."),
        (ReplicaLogDirInfo(), "Partition t-0 is not found in any live log dir on broker 7. There is likely an offline"),
        (ReplicaLogDirInfo("/b"), "Reassignment of replica t-0-7 completed successfully."),
        (ReplicaLogDirInfo("/a"), "Partition t-0 on broker 7 is not being moved from log dir /a to /b."),
        (ReplicaLogDirInfo("/a", 0, "/b", 9), "Reassignment of replica t-0-7 is still in progress."),
        (ReplicaLogDirInfo("/a", 0, "/c", 9), "Partition t-0 on broker 7 is being moved to log dir /c instead of /b."),
    ],
)
def test_replica_log_dir_move_is_completed_or_in_progress(info: ReplicaLogDirInfo | None, output: str) -> None:
    state = ReplicaState(TopicPartitionReplica("t", 0, 7), "/b", info)
    assert str(state).startswith(output)
    assert state.is_moving is (info is not None and info.future_log_dir is not None)


# Rejected files


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--execute",), "--execute needs --reassignment-json-file"),
        (("--generate", "--broker-list", "1"), "--generate needs --topics-to-move-json-file"),
        (("--list", "--preserve-throttles"), "--preserve-throttles cannot be used with --list: it belongs to --verify"),
        (("--verify", "--reassignment-json-file", "f", "--throttle", "5"), "it belongs to --execute"),
        (("--execute", "--reassignment-json-file", "f", "--throttle", "0"), "--throttle: 0 is not allowed"),
        (("--cancel", "--reassignment-json-file", "f", "--timeout", "0"), "--timeout: 0 is not allowed"),
        (("--execute", "--reassignment-json-file", "nowhere.json"), "nowhere.json: cannot be read"),
    ],
)
def test_wrong_arguments_are_rejected_in_one_line(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*NOWHERE, *arguments]) == 1
    printed = capsys.readouterr()
    assert words in printed.err
    assert (printed.err.count("\n"), printed.out) == (1, "")


@pytest.mark.parametrize("actions", [(), ("--list", "--verify")])
def test_exactly_one_action_is_required(actions: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*NOWHERE, *actions])
    assert ended.value.code == 2


# A broker with two log directories


class Tool:
    """Runs the command against a broker, with JSON files in a directory."""

    def __init__(self, broker: Broker, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capsys = capsys
        self._at = ("reassign-partitions", "--bootstrap-server", broker.bootstrap_servers)

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = main([*self._at, *arguments])
        printed = self._capsys.readouterr()
        return code, printed.out, printed.err

    def file(self, text: str) -> str:
        path = self.directory / "file.json"
        path.write_text(text)
        return str(path)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    with Broker({"log.dirs": f"{first},{second}"}, data_dir=first) as running:
        yield running


@pytest.fixture
def admin(broker: Broker) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def tool(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tool:
    return Tool(broker, tmp_path, capsys)


def throttle_configs(admin: KafkaAdminClient, topic: str) -> dict[str, str | None]:
    """Return the throttle configs that are set on the topic and on the broker."""
    resources = [ConfigResource(TOPIC, topic), ConfigResource(BROKER, "0")]
    entries = [e for result in admin.describe_configs(resources).values() for e in result.values() if e.is_modified]
    return {e.name: e.value for e in entries if "throttled" in e.name or e.name == throttles.LOG_DIR_RATE}


def test_generated_proposal_can_be_executed_and_verified(tool: Tool, admin: KafkaAdminClient) -> None:
    admin.create_topics([NewTopic("proposed", 2, 1)])
    topics = tool.file('{"version":1,"topics":[{"topic":"proposed"}]}')
    code, out, _ = tool("--generate", "--topics-to-move-json-file", topics, "--broker-list", "0")
    lines = out.splitlines()
    assert code == 0
    assert (lines[0], lines[2:4]) == (
        "Current partition replica assignment",
        ["", "Proposed partition reassignment configuration"],
    )
    moves = tool.file(lines[4])
    code, out, _ = tool("--execute", "--reassignment-json-file", moves)
    assert code == 0
    assert out.splitlines() == [
        "Current partition replica assignment",
        "",
        lines[1],
        "",
        "Save this to use as the --reassignment-json-file option during rollback",
        "Successfully started partition reassignments for proposed-0,proposed-1",
    ]
    code, out, _ = tool("--verify", "--reassignment-json-file", moves)
    assert code == 0
    assert out.splitlines() == [
        "Status of partition reassignment:",
        "Reassignment of partition proposed-0 is completed.",
        "Reassignment of partition proposed-1 is completed.",
        "",
        "Clearing broker-level throttles on broker 0",
        "Clearing topic-level throttles on topic proposed",
    ]


@pytest.mark.parametrize(("options", "is_allowed"), [((), True), (("--disallow-replication-factor-change",), False)])
def test_replication_factor_change_can_be_disallowed(
    tool: Tool, admin: KafkaAdminClient, options: tuple[str, ...], is_allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"factor-{is_allowed}"
    admin.create_topics([NewTopic(name, 1, 1)])
    requests = []

    def alter(_: KafkaAdminClient, targets: object, **settings: object) -> None:
        requests.append(settings["allow_replication_factor_change"])

    monkeypatch.setattr(KafkaAdminClient, "alter_partition_reassignments", alter)
    moves = tool.file(f'{{"version":1,"partitions":[{{"topic":"{name}","partition":0,"replicas":[0]}}]}}')
    assert tool("--execute", "--reassignment-json-file", moves, *options)[0] == 0
    assert requests == [is_allowed]


def test_log_dir_move_is_throttled_until_it_is_verified(tool: Tool, admin: KafkaAdminClient) -> None:
    admin.create_topics([NewTopic("moved", 1, 1)])
    replica = TopicPartitionReplica("moved", 0, 0)
    before = admin.describe_replica_log_dirs([replica])[replica].current_log_dir
    (target,) = admin.describe_log_dirs()[0].keys() - {before}
    partition = {"topic": "moved", "partition": 0, "replicas": [0], "log_dirs": [target]}
    moves = tool.file(json.dumps({"partitions": [partition]}))
    rates = ("--throttle", "1000", "--replica-alter-log-dirs-throttle", "5000000")
    code, out, err = tool("--execute", "--reassignment-json-file", moves, *rates)
    assert (code, err) == (0, "")
    assert json.loads(out.splitlines()[2])["partitions"] == [{**partition, "log_dirs": [before]}]
    assert out.splitlines()[-5:] == [
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
        "removed.",
        "The inter-broker throttle limit was set to 1000 B/s",
        "The replica-alter-dir throttle limit was set to 5000000 B/s",
        "Successfully started partition reassignment for moved-0",
        f"Successfully started moving log directory to {target} for replica moved-0 with broker 0",
    ]
    rate = {throttles.LEADERS: "0:0", **dict.fromkeys(throttles.RATES, "1000"), throttles.LOG_DIR_RATE: "5000000"}
    assert throttle_configs(admin, "moved") == rate
    verify_preserving = ("--verify", "--reassignment-json-file", moves, "--preserve-throttles", "--json")
    eventually(lambda: json.loads(tool(*verify_preserving)[1])["log_dirs"][0]["log_dir"] == target, seconds=30)
    assert throttle_configs(admin, "moved") == rate
    code, out, _ = tool("--verify", "--reassignment-json-file", moves)
    assert code == 0
    assert "Reassignment of replica moved-0-0 completed successfully." in out
    assert admin.describe_replica_log_dirs([replica])[replica].current_log_dir == target
    assert throttle_configs(admin, "moved") == {}


def test_list_and_cancel_without_reassignments(tool: Tool, admin: KafkaAdminClient) -> None:
    admin.create_topics([NewTopic("quiet", 1, 1)])
    assert tool("--list") == (0, "No partition reassignments found.\n", "")
    assert tool("--list", "--json") == (0, '{"reassignments": []}\n', "")
    moves = tool.file('{"partitions":[{"topic":"quiet","partition":0,"replicas":[0]}]}')
    code, out, _ = tool("--cancel", "--reassignment-json-file", moves, "--preserve-throttles")
    assert code == 0
    assert out.splitlines() == [
        "None of the specified partition reassignments are active.",
        "None of the specified partition moves are active.",
    ]


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        ('{"topic":"unknown","partition":0,"replicas":[0]}', "partitions[0]: Topic unknown not found."),
        ('{"topic":"known","partition":1,"replicas":[0]}', "partitions[0]: Unable to find partition: known-1"),
        ('{"topic":"known","partition":0,"replicas":[9]}', "partitions[0]: Unknown broker id 9; brokers are 0"),
    ],
)
def test_execute_rejects_unknown_topics_partitions_and_brokers_before_any_change(
    tool: Tool, admin: KafkaAdminClient, partition: str, words: str
) -> None:
    if "known" not in admin.list_topics():
        admin.create_topics([NewTopic("known", 1, 1)])
    moves = tool.file(f'{{"partitions":[{partition}]}}')
    code, out, err = tool("--execute", "--reassignment-json-file", moves, "--throttle", "1000")
    assert (code, out, err) == (1, "", f"Error: {moves}: {words}\n")
    assert throttle_configs(admin, "known") == {}


def test_verify_clears_throttles_although_a_topic_is_deleted(tool: Tool, admin: KafkaAdminClient) -> None:
    admin.create_topics([NewTopic("left", 1, 1)])
    moves = tool.file(
        '{"partitions":[{"topic":"gone","partition":0,"replicas":[0]},{"topic":"left","partition":0,"replicas":[0]}]}'
    )
    code, out, err = tool("--verify", "--reassignment-json-file", moves)
    assert (code, err) == (1, f"Error: {moves}: partitions[0]: Topic gone not found.\n")
    assert out.splitlines()[1] == (
        "There is no active reassignment of partition gone-0, but replica set is  rather than 0."
    )
    assert out.splitlines()[-1] == "Clearing topic-level throttles on topic left"


def test_execute_reports_unknown_log_dir_after_starting_reassignments(tool: Tool, admin: KafkaAdminClient) -> None:
    admin.create_topics([NewTopic("stays", 1, 1)])
    moves = tool.file('{"partitions":[{"topic":"stays","partition":0,"replicas":[0],"log_dirs":["/nowhere"]}]}')
    code, out, err = tool("--execute", "--reassignment-json-file", moves, "--json")
    assert code == 1
    assert json.loads(out)["started"] == [{"topic": "stays", "partition": 0}]
    assert err.startswith("Error: Failed to alter dir for stays-0-0 to /nowhere: ")


def test_generate_rejects_unknown_topics_and_brokers(tool: Tool) -> None:
    topics = tool.file('{"topics":[{"topic":"unknown"}]}')
    generate = ("--generate", "--topics-to-move-json-file", topics, "--broker-list")
    assert tool(*generate, "0") == (1, "", f"Error: {topics}: topics[0].topic: Topic unknown not found.\n")
    assert tool(*generate, "0,4") == (1, "", "Error: --broker-list: Unknown broker id 4; brokers are 0\n")

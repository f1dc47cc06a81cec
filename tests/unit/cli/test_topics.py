"""`ottla topics`: filters of described topics, and the options of each action."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from ottla import Broker, KafkaAdminClient, NewTopic
from ottla.cli.framework.options import Option
from ottla.cli.framework.output import Output
from ottla.cli.main import main
from ottla.cli.topics import topics
from ottla.client.admin.configs import ConfigResource
from ottla.client.admin.topics.partitions import PartitionReassignment
from ottla.client.core.metadata import PartitionInfo, TopicInfo
from ottla.cluster.store.znodes import uuid_text
from ottla.errors import KafkaTimeoutError
from ottla.model import TopicPartition

NOWHERE = ("--bootstrap-server", "127.0.0.1:1")


def partition(topic: str, number: int, leader: int = 0, isr: tuple[int, ...] = (0, 1)) -> PartitionInfo:
    return PartitionInfo(topic, number, leader, 0, (0, 1), isr, ())


class Cluster:
    """A fake cluster: a healthy topic with a config, topics without a replica in sync, and without a leader."""

    def describe_topics(self) -> dict[str, TopicInfo]:
        result = {
            "whole": (partition("whole", 0), partition("whole", 1)),
            "short": (partition("short", 0), partition("short", 1, isr=(0,))),
            "unled": (partition("unled", 0, leader=-1), partition("unled", 1)),
            "moved": (partition("moved", 0), partition("moved", 1, isr=(0,))),
        }
        return {name: TopicInfo(name, UUID(int=1), False, partitions) for name, partitions in result.items()}

    def list_partition_reassignments(
        self, partitions: list[TopicPartition], timeout_ms: float
    ) -> dict[TopicPartition, PartitionReassignment]:
        assert partitions == [TopicPartition("moved", 1), TopicPartition("short", 1)]
        return {TopicPartition("moved", 1): PartitionReassignment((0, 1), (1,), (0,))}

    def describe_configs(self, resources: Iterable[ConfigResource]) -> Mapping[ConfigResource, dict[str, Any]]:
        entry = SimpleNamespace(name="retention.ms", value="5", source=topics.SET_ON_TOPIC)
        return {r: {entry.name: entry} if r.name == "whole" else {} for r in resources}


def parsed(*arguments: str) -> argparse.Namespace:
    return topics.COMMAND.parser().parse_args([*NOWHERE, *arguments])


def describe(cluster: Any, *arguments: str) -> None:
    args = parsed("--describe", *arguments)
    output = Output(as_json=args.json)
    output.document = topics.describe(cluster, args, output)
    output.close()


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), {"moved": [0, 1], "short": [0, 1], "unled": [0, 1], "whole": [0, 1]}),
        (("--under-replicated-partitions",), {"short": [1]}),
        (("--unavailable-partitions",), {"unled": [0]}),
        (("--under-replicated-partitions", "--unavailable-partitions"), {"short": [1], "unled": [0]}),
        (("--topics-with-overrides",), {"whole": [0, 1]}),
    ],
)
def test_describe_filters_apply_to_json_and_text(
    flags: tuple[str, ...], expected: dict[str, list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster: Any = Cluster()
    describe(cluster, *flags, "--json")
    report = json.loads(capsys.readouterr().out)
    assert {topic["topic"]: [p["partition"] for p in topic["partitions"]] for topic in report} == expected
    describe(cluster, *flags)
    lines = capsys.readouterr().out.splitlines()
    assert {line.split("\t")[line.startswith("\t")].removeprefix("Topic: ") for line in lines} == set(expected)
    if "--topics-with-overrides" not in flags:
        numbered = [line.split("\t")[1:3] for line in lines if line.startswith("\t")]
        assert numbered == [
            [f"Topic: {name}", f"Partition: {n}"] for name, numbers in expected.items() for n in numbers
        ]


def test_describe_prints_reassignments_and_works_without_the_controller(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster: Any = Cluster()
    describe(cluster)
    assert "Isr: 0\tAdding Replicas: 1\tRemoving Replicas: 0\tElr: " in capsys.readouterr().out

    def time_out(*_: Any, **__: Any) -> Any:
        raise KafkaTimeoutError

    cluster.list_partition_reassignments = time_out
    describe(cluster, "--under-replicated-partitions")
    report = capsys.readouterr().out
    assert "Adding" not in report
    assert [line.split("\t")[1] for line in report.splitlines()] == ["Topic: moved", "Topic: short"]


def test_json_output_lists_the_changed_topics(
    ottla_broker: Broker, ottla_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic_arguments = ("--bootstrap-server", ottla_broker.bootstrap_servers, "--json", "--topic", f"{ottla_topic}.x")

    def report(*arguments: str) -> Any:
        capsys.readouterr()
        assert main(["topics", *topic_arguments, *arguments]) == 0
        return json.loads(capsys.readouterr().out)

    assert report("--create") == [f"{ottla_topic}.x"]
    assert report("--create", "--if-not-exists") == []
    assert report("--alter", "--partitions", "2") == [f"{ottla_topic}.x"]
    assert report("--delete") == [f"{ottla_topic}.x"]
    assert report("--delete", "--if-exists") == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--create --replica-assignment 0 --partitions 1", "--replica-assignment and --partitions cannot"),
        ("--create --replica-assignment 0 --replication-factor 1", "--replica-assignment and --replication-factor"),
        ("--create --if-exists", "belongs to --describe and --alter and --delete"),
        ("--create --exclude-internal", "--exclude-internal cannot be used with --create"),
        ("--create --under-replicated-partitions", "belongs to --describe"),
        ("--list --config a=b", "--config cannot be used with --list: it belongs to --create"),
        ("--list --unavailable-partitions", "belongs to --describe"),
        ("--list --if-not-exists", "belongs to --create"),
        ("--list --if-exists", "--if-exists cannot be used with --list"),
        ("--describe --partitions 0", "--partitions cannot be used with --describe"),
        ("--describe --config a=b", "belongs to --create"),
        ("--describe --topics-with-overrides --unavailable-partitions", "cannot be used together"),
        ("--delete --partitions 1", "--partitions cannot be used with --delete"),
        ("--delete --exclude-internal", "belongs to --list and --describe"),
        ("--alter --replication-factor 2 --partitions 3", "belongs to --create"),
        ("--alter --config a=b", "with ottla configs --alter --topic"),
        ("--alter --config a=b --partitions 3", "ottla configs"),
        ("--alter", "--alter needs --partitions"),
        ("--alter --delete-config a", "no longer supported: ottla configs --alter"),
        ("--describe --topic-id x", "--topic and --topic-id cannot be used together"),
        ("--describe --topics-with-overrides --at-min-isr-partitions", "cannot be used together"),
    ],
)
def test_option_without_effect_is_rejected(arguments: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", *NOWHERE, "--topic", "t", *arguments.split()]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_describe_selects_partitions_by_min_isr_and_topics_by_id(
    ottla_broker: Broker, ottla_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = ottla_broker.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        configs = {"min.insync.replicas": "2"}
        admin.create_topics(
            [NewTopic(f"{ottla_topic}-under", 1, 1, topic_configs=configs), NewTopic(ottla_topic, 1, 1)]
        )
        topic_id = uuid_text(admin.describe_topics([ottla_topic])[ottla_topic].topic_id)
    describe_topics = ("topics", "--bootstrap-server", servers, "--describe")

    def described(*arguments: str, code: int = 0) -> list[str]:
        capsys.readouterr()
        assert main([*describe_topics, *arguments]) == code
        return [line.split("\t")[1] for line in capsys.readouterr().out.splitlines() if line.startswith("\t")]

    topics = ("--topic", f"{ottla_topic}.*")
    assert described(*topics, "--under-min-isr-partitions") == [f"Topic: {ottla_topic}-under"]
    assert described(*topics, "--at-min-isr-partitions") == [f"Topic: {ottla_topic}"]
    assert described("--topic-id", topic_id, "--partition-size-limit-per-response", "5") == [f"Topic: {ottla_topic}"]
    assert described("--topic-id", "x" * 22, code=1) == []


def test_every_option_belongs_to_some_actions_or_to_all() -> None:
    of_all = {"action", "topic", "json", "bootstrap_server", "zookeeper", "command_config", "profile"}
    of_some = {option.dest for option in topics.COMMAND.options if isinstance(option, Option) and option.actions}
    assert set(vars(parsed("--list"))) == of_all | of_some


def test_exceeded_mutation_quota_is_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        servers = ("--bootstrap-server", broker.bootstrap_servers)
        quota = ("--entity-type", "users", "--entity-default", "--add-config", "controller_mutation_rate=0.01")
        assert main(["configs", *servers, "--alter", *quota]) == 0
        assert main(["topics", *servers, "--create", "--topic", "a", "--partitions", "3"]) == 0
        assert main(["topics", *servers, "--create", "--topic", "b"]) == 1
        assert main(["topics", *servers, "--alter", "--topic", "a", "--partitions", "4"]) == 1
        assert main(["topics", *servers, "--delete", "--topic", "a"]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3
    assert all(
        "The quota controller_mutation_rate=0.01 of user 'ANONYMOUS' is exceeded: retry in" in line for line in errors
    )

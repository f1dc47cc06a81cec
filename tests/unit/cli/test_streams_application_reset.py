"""`ottla streams-application-reset` against a broker in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla import Broker, KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition
from ottla.cli.main import main


@pytest.fixture
def application(ottla_broker: Broker, ottla_topic: str) -> str:
    """An application that has read one of the three records in its input topic, with two internal topics."""
    name = f"app-{ottla_topic}"
    with KafkaAdminClient(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        names = (ottla_topic, f"{name}-counts-changelog", f"{name}-x-repartition", f"{name}-output")
        admin.create_topics([NewTopic(topic, 1, 1) for topic in names])
        admin.alter_consumer_group_offsets(name, {TopicPartition(ottla_topic, 0): 1})
    with KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        for _ in range(3):
            producer.send(ottla_topic, b"x")
    return name


def reset(broker: Broker, application: str, *more: str) -> int:
    at = ("--bootstrap-server", broker.bootstrap_servers, "--application-id", application)
    return main(["streams-application-reset", *at, *more])


def test_dry_run_prints_the_reset_and_changes_nothing(
    ottla_broker: Broker, ottla_topic: str, application: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reset(ottla_broker, application, "--input-topics", ottla_topic, "--to-latest", "--dry-run") == 0
    assert capsys.readouterr().out == (
        "----Dry run displays the actions which will be performed when running Streams Reset Tool----\n"
        f"Reset-offsets for input topics [{ottla_topic}]\n"
        f"Following input topics offsets will be reset to (for consumer group {application})\n"
        f"Topic: {ottla_topic} Partition: 0 Offset: 3\nDone.\n"
        f"Deleting inferred internal topics [{application}-counts-changelog, {application}-x-repartition]\nDone.\n"
    )
    with KafkaAdminClient(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        assert admin.list_consumer_group_offsets(application)[TopicPartition(ottla_topic, 0)].offset == 1
        assert f"{application}-x-repartition" in admin.list_topics()


def test_offsets_are_reset_and_internal_topics_deleted(
    ottla_broker: Broker, ottla_topic: str, application: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one = f"{application}-x-repartition"
    assert reset(ottla_broker, application, "--internal-topics", f"{application}-output") == 1
    assert "Invalid topic specified in the --internal-topics option" in capsys.readouterr().err
    assert reset(ottla_broker, application, "--input-topics", ottla_topic, "--internal-topics", one, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"offsets": [{"topic": ottla_topic, "partition": 0, "offset": 0}], "deleted": [one]}
    with KafkaAdminClient(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        assert admin.list_consumer_group_offsets(application)[TopicPartition(ottla_topic, 0)].offset == 0
        topics = admin.list_topics()
    assert one not in topics
    assert {f"{application}-counts-changelog", f"{application}-output", ottla_topic} <= {*topics}


def test_missing_input_topics_are_skipped_and_the_exit_code_is_1(
    ottla_broker: Broker, application: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reset(ottla_broker, application, "--input-topics", "nowhere", "--dry-run") == 1
    assert "Following input topics are not found, skipping them\nTopic: nowhere\n" in capsys.readouterr().out


def test_reset_of_a_running_application_requires_force(
    ottla_broker: Broker, ottla_topic: str, application: str, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = ottla_broker.bootstrap_servers
    with KafkaConsumer(ottla_topic, bootstrap_servers=servers, group_id=application) as consumer:
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        assert reset(ottla_broker, application) == 1
        assert "is still active and has following members: " in capsys.readouterr().err
        assert reset(ottla_broker, application, "--force") == 0
        assert f"Force deleting all active members in the group: {application}\n" in capsys.readouterr().out


def test_offsets_are_reset_to_those_of_a_file(
    ottla_broker: Broker, ottla_topic: str, application: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"{ottla_topic},0,2\n")
    assert reset(ottla_broker, application, "--input-topics", ottla_topic, "--from-file", str(file)) == 0
    assert f"Topic: {ottla_topic} Partition: 0 Offset: 2\n" in capsys.readouterr().out


def test_lines_of_the_file_for_other_topics_are_ignored(
    ottla_broker: Broker, ottla_topic: str, application: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "offsets.csv", f"{application}-output"
    file.write_text(f"{ottla_topic},0,2\n{other},0,0\n")
    assert reset(ottla_broker, application, "--input-topics", ottla_topic, "--from-file", str(file)) == 0
    assert other not in capsys.readouterr().out
    with KafkaAdminClient(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        offsets = admin.list_consumer_group_offsets(application)
    assert {tp.topic: at.offset for tp, at in offsets.items()} == {ottla_topic: 2}


@pytest.mark.parametrize("content", ["", "another,{topic},0,2\n"])
def test_file_without_offsets_for_the_application_is_an_error(
    ottla_broker: Broker,
    ottla_topic: str,
    application: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str,
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(content.format(topic=ottla_topic))
    assert reset(ottla_broker, application, "--input-topics", ottla_topic, "--from-file", str(file)) == 1
    assert f"ERROR: --from-file {file}: no offsets for {application}; expected lines" in capsys.readouterr().err

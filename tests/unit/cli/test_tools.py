"""Topics, console clients and consumer groups on the command line, against a broker in this process."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from ottla import Broker, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from ottla.cli.console.console_producer import Lines
from ottla.cli.console.record_format import Format
from ottla.cli.framework.output import lines
from ottla.cli.main import all_commands, main
from ottla.errors import ConfigurationError
from ottla.records.consumer_record import ConsumerRecord


@pytest.fixture
def at(ottla_broker: Broker) -> tuple[str, str]:
    return "--bootstrap-server", ottla_broker.bootstrap_servers


def fill(broker: Broker, topic: str, values: list[bytes]) -> None:
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for future in [producer.send(topic, value, key=b"k%d" % i, partition=0) for i, value in enumerate(values)]:
            future.get(10)


def type_in(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text), isatty=lambda: False))


def test_topic_is_created_described_altered_and_deleted(
    at: tuple[str, str], ottla_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic_arguments = (*at, "--topic", ottla_topic)
    assert main(["topics", *topic_arguments, "--create", "--partitions", "2", "--config", "retention.ms=5000"]) == 0
    assert f"Created topic {ottla_topic}." in capsys.readouterr().out
    assert main(["topics", *topic_arguments, "--describe"]) == 0
    output = capsys.readouterr().out.splitlines()
    assert output[0].startswith(f"Topic: {ottla_topic}\tTopicId: ")
    assert output[0].endswith("PartitionCount: 2\tReplicationFactor: 1\tConfigs: retention.ms=5000")
    assert output[1].startswith(f"\tTopic: {ottla_topic}\tPartition: 0\tLeader: 0\tReplicas: 0\tIsr: 0")
    assert main(["topics", *topic_arguments, "--alter", "--partitions", "3"]) == 0
    capsys.readouterr()
    assert main(["topics", *topic_arguments, "--describe", "--json"]) == 0
    (described,) = json.loads(capsys.readouterr().out)
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2]
    assert main(["topics", *at, "--list"]) == 0
    assert ottla_topic in capsys.readouterr().out.split()
    assert main(["topics", *topic_arguments, "--delete"]) == 0
    assert main(["topics", *at, "--list"]) == 0
    assert ottla_topic not in capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--create", "--topic", "a b"), 1, "contains characters other than letters"),
        (("--create", "--topic", "x", "--partitions", "0"), 1, "at least 1"),
        (("--create", "--topic", "x", "--replication-factor", "3"), 1, "replication factor 3"),
        (("--create", "--topic", "x", "--config", "nonsense=1"), 1, "nonsense"),
        (("--create", "--topic", "x", "--config", "nonsense"), 1, "key=value"),
        (("--create",), 2, "[topic]"),
        (("--delete", "--topic", "nowhere"), 1, "does not exist"),
        (("--describe", "--topic", "nowhere"), 1, "does not exist"),
        (("--alter", "--topic", "nowhere"), 1, "--partitions"),
    ],
)
def test_rejected_topics_command_prints_one_line_and_sets_the_exit_code(
    at: tuple[str, str], arguments: tuple[str, ...], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topics", *at, *arguments]) == code
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_create_of_an_existing_topic_fails_without_if_not_exists(at: tuple[str, str], ottla_topic: str) -> None:
    create = ["topics", *at, "--create", "--topic", ottla_topic]
    assert main(create) == 0
    assert main(create) == 1
    assert main([*create, "--if-not-exists"]) == 0


def test_console_producer_parses_keys_and_headers_of_lines(
    at: tuple[str, str], ottla_broker: Broker, ottla_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(monkeypatch, b"h1:x,h2:y|k1=one\n|k2=NULL\n")
    reader_properties = (
        "parse.key=true",
        "key.separator==",
        "parse.headers=true",
        "headers.delimiter=|",
        "null.marker=NULL",
    )
    properties = [word for text in reader_properties for word in ("--property", text)]
    assert main(["console-producer", *at, "--topic", ottla_topic, *properties]) == 0
    with KafkaConsumer(
        ottla_topic,
        bootstrap_servers=ottla_broker.bootstrap_servers,
        auto_offset_reset="earliest",
        group_id=ottla_topic,
    ) as consumer:
        first, second = (next(consumer) for _ in range(2))
    assert (first.key, first.value, first.headers) == (b"k1", b"one", [("h1", b"x"), ("h2", b"y")])
    assert (second.key, second.value, second.headers) == (b"k2", None, [])


def test_console_producer_names_a_line_without_key_separator(
    at: tuple[str, str], ottla_topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(monkeypatch, b"k\tv\nno separator\n")
    assert main(["console-producer", *at, "--topic", ottla_topic, "--property", "parse.key=true"]) == 1
    assert "No key separator found on line number 2: 'no separator'" in capsys.readouterr().err


def test_console_consumer_prints_the_requested_parts_of_records(
    at: tuple[str, str], ottla_broker: Broker, ottla_topic: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    fill(ottla_broker, ottla_topic, [b"one", b"two", b"three"])
    print_options = [
        word for text in ("print.key=true", "print.offset=true", "key.separator=|") for word in ("--property", text)
    ]
    command = [
        "console-consumer",
        *at,
        "--topic",
        ottla_topic,
        "--from-beginning",
        "--max-messages",
        "2",
        *print_options,
    ]
    assert main(command) == 0
    out = capsysbinary.readouterr()
    assert out.out == b"Offset:0|k0|one\nOffset:1|k1|two\n"
    assert out.err == b"Processed a total of 2 messages\n"
    one_partition = ["console-consumer", *at, "--topic", ottla_topic, "--partition", "0", "--offset", "2"]
    assert main([*one_partition, "--timeout-ms", "300"]) == 0
    assert capsysbinary.readouterr().out == b"three\n"


def test_console_consumer_prints_a_warning_about_a_missing_topic(at: tuple[str, str], ottla_topic: str) -> None:
    missing = f"{ottla_topic}-missing"
    options = ["--topic", missing, "--consumer-property", "allow.auto.create.topics=false", "--timeout-ms", "2000"]
    command = [sys.executable, "-m", "ottla", "console-consumer", *at, *options]
    errors = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr
    assert errors.startswith(f"Topic '{missing}' does not exist; waiting until it is created. To create it: ottla ")


def test_console_consumer_commits_only_printed_records(
    at: tuple[str, str], ottla_broker: Broker, ottla_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(ottla_broker, ottla_topic, [b"one", b"two", b"three"])
    command = ["console-consumer", *at, "--topic", ottla_topic, "--group", ottla_topic, "--from-beginning"]
    for limit, printed in (("1", "one\n"), ("2", "two\nthree\n")):
        assert main([*command, "--max-messages", limit]) == 0
        assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    ("limits", "printed"),
    [
        ("--max-messages -1 --timeout-ms 500", ["one", "two"]),
        ("--max-messages 2 --timeout-ms -1", ["one", "two"]),
        ("--max-messages 0", []),
    ],
)
def test_console_consumer_has_no_limit_if_it_is_negative(
    limits: str,
    printed: list[str],
    at: tuple[str, str],
    ottla_broker: Broker,
    ottla_topic: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(ottla_broker, ottla_topic, [b"one", b"two"])
    assert main(["console-consumer", *at, "--topic", ottla_topic, "--from-beginning", *limits.split()]) == 0
    assert capsys.readouterr().out.split() == printed


@pytest.mark.parametrize("offset", ["2", "EARLIEST", "latest"])
def test_console_consumer_reads_a_partition_from_an_offset(
    offset: str, at: tuple[str, str], ottla_broker: Broker, ottla_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(ottla_broker, ottla_topic, [b"0", b"1", b"2"])
    reader_arguments = ("--topic", ottla_topic, "--partition", "0", "--offset", offset, "--timeout-ms", "300")
    assert main(["console-consumer", *at, *reader_arguments]) == 0
    assert capsys.readouterr().out.split() == {"2": ["2"], "EARLIEST": ["0", "1", "2"], "latest": []}[offset]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--offset 3", "--offset needs --partition"),
        ("--partition 0 --offset 3 --from-beginning", "--offset and --from-beginning cannot be used together"),
        ("--partition 0 --offset -1", "'-1' is not allowed"),
        ("--partition 0 --offset soon", "'soon' is not allowed"),
        ("--partition 0 --group g", "--partition cannot be used with a group"),
        ("--partition 0 --consumer-property group.id=g", "--partition cannot be used with a group"),
        ("--skip-message-on-error", "--skip-message-on-error needs --zookeeper"),
    ],
)
def test_console_consumer_rejects_options_without_effect(
    arguments: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["console-consumer", "--bootstrap-server", "127.0.0.1:1", "--topic", "t"]
    assert main([*command, *arguments.replace("--offset -", "--offset=-").split()]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("arguments", ["--isolation-level read_committed", "--partition 0"])
def test_console_consumer_on_zookeeper_rejects_options_of_the_new_consumer(
    arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["console-consumer", "--zookeeper", "127.0.0.1:1", "--topic", "t", *arguments.split()]
    assert main(command) == 1
    assert f"{arguments.split()[0]} needs --bootstrap-server" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["topics --list", "create-topic --topic t", "console-consumer --topic t"])
@pytest.mark.parametrize("empty", ["", " ", ","])
@pytest.mark.parametrize("option", ["--bootstrap-server", "--zookeeper"])
def test_empty_server_address_is_rejected_in_one_line(
    command: str, option: str, empty: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), option, empty]) == 1
    error = capsys.readouterr().err
    assert f"{option}: {empty!r} names no server" in error
    assert error.count("\n") == 1


def test_unresolvable_host_is_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "--list", "--bootstrap-server", "no-such-host.invalid:9092"]) == 1
    assert "no host name of no-such-host.invalid:9092 can be resolved" in capsys.readouterr().err


def test_console_producer_accepts_broker_list(
    ottla_broker: Broker, ottla_topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(monkeypatch, b"one\n")
    at = ottla_broker.bootstrap_servers
    assert main(["console-producer", "--broker-list", at, "--topic", ottla_topic]) == 0
    reader_arguments = ("--topic", ottla_topic, "--from-beginning", "--max-messages", "1")
    assert main(["console-consumer", "--bootstrap-server", at, *reader_arguments]) == 0
    assert capsys.readouterr().out == "one\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--list --state Foo", "Foo is not allowed: PreparingRebalance, CompletingRebalance, Stable, Dead, Empty"),
        ("--list --state Stable,NotReady", "NotReady is not allowed"),
        ("--describe --group g --state Stable", "--state takes no value with --describe"),
    ],
)
def test_consumer_groups_rejects_unknown_states(arguments: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consumer-groups", "--bootstrap-server", "127.0.0.1:1", *arguments.split()]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_consumer_groups_list_filters_by_state(
    at: tuple[str, str], ottla_broker: Broker, ottla_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(ottla_broker, ottla_topic, [b"1"])
    reader_arguments = ("--topic", ottla_topic, "--group", ottla_topic, "--from-beginning", "--max-messages", "1")
    assert main(["console-consumer", *at, *reader_arguments]) == 0
    for states, is_listed in (("empty", True), ("Stable, EMPTY", True), ("Stable", False)):
        capsys.readouterr()
        assert main(["consumer-groups", *at, "--list", "--state", states]) == 0
        assert (ottla_topic in capsys.readouterr().out) is is_listed


def test_consumer_groups_are_listed_and_described_with_their_lag(
    at: tuple[str, str], ottla_broker: Broker, ottla_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(ottla_broker, ottla_topic, [b"1", b"2", b"3"])
    group = f"g-{ottla_topic}"
    reader_arguments = [
        "console-consumer",
        *at,
        "--topic",
        ottla_topic,
        "--group",
        group,
        "--from-beginning",
        "--max-messages",
        "3",
    ]
    assert main(reader_arguments) == 0
    fill(ottla_broker, ottla_topic, [b"4", b"5"])
    capsys.readouterr()
    assert main(["consumer-groups", *at, "--list"]) == 0
    assert group in capsys.readouterr().out.split()
    assert main(["consumer-groups", *at, "--describe", "--group", group]) == 0
    out = capsys.readouterr()
    assert f"Consumer group '{group}' has no active members." in out.err
    assert out.out.splitlines()[-1].split()[:6] == [group, ottla_topic, "0", "3", "5", "2"]
    assert main(["consumer-groups", *at, "--describe", "--group", group, "--json"]) == 0
    (output,) = json.loads(capsys.readouterr().out)
    assert (output["state"], output["offsets"][0]["lag"]) == ("Empty", 2)
    assert main(["consumer-groups", *at, "--describe", "--group", "missing"]) == 1
    assert "Error: Consumer group 'missing' does not exist." in capsys.readouterr().err


def test_console_consumer_include_matches_whole_topic_names(
    at: tuple[str, str], ottla_broker: Broker, ottla_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(ottla_broker, ottla_topic, [b"1"])
    command = ["console-consumer", *at, "--from-beginning", "--timeout-ms", "500", "--include"]
    assert main([*command, f"x|{ottla_topic}"]) == 0
    assert capsys.readouterr().out == "1\n"
    assert main([*command, ottla_topic[:-1]]) == 0
    assert capsys.readouterr().out == ""
    assert main([*command, "("]) == 1
    assert "--include '(' is not a regular expression" in capsys.readouterr().err


def test_consumer_groups_delete_prints_the_results(
    at: tuple[str, str], ottla_broker: Broker, ottla_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(ottla_broker, ottla_topic, [b"1"])
    groups = [f"{name}-{ottla_topic}" for name in "abc"]
    with KafkaAdminClient(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        for group in groups:
            admin.alter_consumer_group_offsets(group, {TopicPartition(ottla_topic, 0): 1})
    delete = ["consumer-groups", *at, "--delete", "--group"]
    assert main([*delete, groups[0]]) == 0
    assert capsys.readouterr().out == f"Deletion of requested consumer groups ('{groups[0]}') was successful.\n"
    assert main([*delete, groups[0], "--group", groups[1]]) == 1
    printed = capsys.readouterr()
    assert printed.out == f"\nThese consumer groups were deleted successfully: '{groups[1]}'\n"
    assert f"* Group '{groups[0]}' could not be deleted due to: " in printed.err
    assert main([*delete, groups[2], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"deleted": [groups[2]], "errors": []}
    assert main([*delete, groups[2], "--json"]) == 1
    output = json.loads(capsys.readouterr().out)
    assert (output["deleted"], [error["group"] for error in output["errors"]]) == ([], [groups[2]])


@pytest.mark.parametrize(
    "arguments", ["--list", "--describe --group g", "--describe --all-groups", "--delete --group g"]
)
def test_consumer_groups_timeout_limits_requests(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    at = ("--bootstrap-server", "127.0.0.1:1", "--timeout", "200")
    assert main(["consumer-groups", *at, *arguments.split()]) == 1
    assert "not done within 0.2 s" in capsys.readouterr().err


def test_consumer_groups_describe_prints_members_and_state(
    at: tuple[str, str], ottla_broker: Broker, ottla_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(ottla_broker, ottla_topic, [b"1"])
    with KafkaConsumer(
        ottla_topic,
        bootstrap_servers=ottla_broker.bootstrap_servers,
        group_id=ottla_topic,
        auto_offset_reset="earliest",
    ) as consumer:
        next(consumer)
        describe = ["consumer-groups", *at, "--describe", "--group", ottla_topic]
        assert main([*describe, "--members", "--verbose"]) == 0
        row = capsys.readouterr().out.splitlines()[-1]
        assert row.split()[-3] == f"{ottla_topic}:0"
        assert main([*describe, "--state"]) == 0
        assert "Stable" in capsys.readouterr().out
        assert main([*describe, "--members", "--json"]) == 0
        ((member,),) = (output["members"] for output in json.loads(capsys.readouterr().out))
        assert member["assignment"] == [{"topic": ottla_topic, "partition": 0}]
        assert main([*describe, "--state", "--json"]) == 0
        (output,) = json.loads(capsys.readouterr().out)
        host, _, port = ottla_broker.bootstrap_servers.rpartition(":")
        assert (output["coordinator"]["host"], output["coordinator"]["port"]) == (host, int(port))
        assert (output["state"], output["assignment_strategy"], output["members"]) == ("Stable", "range", 1)


def test_main_without_command_prints_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert main(["--help"]) == 0
    usage = capsys.readouterr().out
    assert all(f"  {command.name} " in usage for command in all_commands())
    assert main(["topic"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "ottla: there is no command 'topic'; did you mean topics? (`ottla --help` lists all commands)"
    ]


@pytest.mark.parametrize("command", [c.name for c in all_commands()])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"usage: ottla {command}" in capsys.readouterr().out


def test_header_without_a_key_separator_has_its_text_as_key_if_errors_are_ignored() -> None:
    lines = Lines.from_properties({"parse.headers": "true", "ignore.error": "true", "null.marker": "N"})
    assert lines.parse(b"a:1,b,N,c:N\tv", 1) == (None, b"v", [("a", b"1"), ("b", None), ("N", None), ("c", None)])


def test_null_marker_stands_for_no_headers_but_not_for_the_name_of_one() -> None:
    lines = Lines.from_properties({"parse.headers": "true", "null.marker": "N"})
    assert lines.parse(b"N\tv", 1) == (None, b"v", [])
    assert lines.parse(b"a:N\tv", 1) == (None, b"v", [("a", None)])
    with pytest.raises(ConfigurationError, match="A header on line number 3 has the null marker as its name"):
        lines.parse(b"N:1\tv", 3)


def test_key_separators_may_be_escaped_and_errors_ignored() -> None:
    assert Lines.from_properties({"parse.key": "true", "key.separator": "\\t"}).parse(b"a\tb", 1) == (b"a", b"b", [])
    assert Lines.from_properties({"parse.key": "true", "ignore.error": "true"}).parse(b"ab", 1) == (None, b"ab", [])
    with pytest.raises(ConfigurationError, match="line number 7"):
        Lines.from_properties({"parse.key": "true"}).parse(b"ab", 7)


def test_record_is_printed_with_all_its_parts() -> None:
    record = ConsumerRecord("t", 1, 0, 2, 3, 1, None, b"v", [("h", None)])
    print_all = {f"print.{part}": "true" for part in ("timestamp", "partition", "offset", "headers", "key")}
    line = Format.from_properties({**print_all, "null.literal": "-"}).line(record)
    assert line == b"LogAppendTime:3\tPartition:1\tOffset:2\th:-\t-\tv\n"


def test_table_columns_have_kafkas_width_or_that_of_the_widest_cell() -> None:
    header, row = lines(("A", "B"), [("x" * 20, None)])
    assert header == "A" + " " * 20 + "B"
    assert row == "x" * 20 + " -"

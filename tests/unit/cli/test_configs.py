"""`ottla configs` against a broker in this process: described, altered and rejected configs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla import Broker, KafkaAdminClient
from ottla.cli.configs.configs import pairs
from ottla.cli.configs.users import java_double
from ottla.cli.main import main
from ottla.client.admin.security.scram import ScramMechanism
from ottla.errors import ConfigurationError

Configs = Callable[..., tuple[int, str, str]]


@pytest.fixture
def configs(ottla_broker: Broker, capsys: pytest.CaptureFixture[str]) -> Configs:
    """Return a function that runs the command and returns its exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["configs", "--bootstrap-server", ottla_broker.bootstrap_servers, *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def user(ottla_topic: str) -> str:
    """A unique name."""
    return ottla_topic


def test_topic_configs_are_set_described_and_removed(configs: Configs, topic: str) -> None:
    topic_arguments = ("--entity-type", "topics", "--entity-name", topic)
    changed = f"Completed updating config for topic {topic}.\n"
    assert configs(
        "--alter", *topic_arguments, "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]"
    ) == (
        0,
        changed,
        "",
    )
    assert configs("--describe", *topic_arguments)[1].splitlines() == [
        f"Dynamic configs for topic {topic} are:",
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete,"
        " DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "  retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000}",
    ]
    assert configs("--alter", "--topic", topic, "--delete-config", "retention.ms,cleanup.policy")[0] == 0
    assert configs("--describe", "--topic", topic)[1] == f"Dynamic configs for topic {topic} are:\n"


def test_describe_all_includes_default_configs(configs: Configs, topic: str) -> None:
    output = configs("--describe", "--topic", topic, "--all")[1].splitlines()
    assert output[0] == f"All configs for topic {topic} are:"
    assert any(line.startswith("  segment.bytes=1073741824 sensitive=false") for line in output)


def test_describe_without_entity_name_describes_every_topic(configs: Configs, topic: str) -> None:
    assert f"Dynamic configs for topic {topic} are:\n" in configs("--describe", "--entity-type", "topics")[1]


def test_describe_reports_a_topic_that_does_not_exist(configs: Configs) -> None:
    expected = "The topic 'nowhere' doesn't exist and doesn't have dynamic config.\n"
    assert configs("--describe", "--topic", "nowhere") == (0, expected, "")
    assert configs("--describe", "--topic", "nowhere", "--json") == (0, "[]\n", "")


def test_add_config_file_sets_the_configs_of_a_properties_file(configs: Configs, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "topic.properties"
    file.write_text("# of a topic\nretention.ms=7000\nsegment.ms = 100000\n")
    assert configs("--alter", "--topic", topic, "--add-config-file", str(file))[0] == 0
    (output,) = json.loads(configs("--describe", "--topic", topic, "--json")[1])
    assert (output["type"], output["name"]) == ("topics", topic)
    assert {option["name"]: option["value"] for option in output["configs"]} == {
        "retention.ms": "7000",
        "segment.ms": "100000",
    }
    assert {option["source"] for option in output["configs"]} == {"DYNAMIC_TOPIC_CONFIG"}


def test_broker_config_and_broker_defaults_are_set_separately() -> None:
    with Broker() as broker:
        at = ("configs", "--bootstrap-server", broker.bootstrap_servers, "--alter")
        assert main([*at, "--broker", "0", "--add-config", "log.cleaner.threads=2"]) == 0
        assert main([*at, "--broker-defaults", "--add-config", "log.cleaner.threads=3"]) == 0
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            broker_value, default = (_threads(admin, name) for name in ("0", ""))
    assert (broker_value, default) == ("2", "3")


def _threads(admin: KafkaAdminClient, broker: str) -> str | None:
    from ottla.client.admin.configs import BROKER, ConfigResource

    (options,) = admin.describe_configs([ConfigResource(BROKER, broker)]).values()
    return options["log.cleaner.threads"].value


def test_describe_brokers_includes_the_cluster_default(configs: Configs) -> None:
    output = configs("--describe", "--entity-type", "brokers")[1]
    assert output == "Dynamic configs for broker 0 are:\nDefault configs for brokers in the cluster are:\n"


def test_describe_broker_logger_prints_all_loggers(configs: Configs) -> None:
    assert "  ottla.broker=" in configs("--describe", "--broker-logger", "0")[1]


def test_describe_group_prints_configs_of_a_group_without_members(configs: Configs, user: str) -> None:
    assert configs("--alter", "--group", user, "--add-config", "consumer.session.timeout.ms=50000")[0] == 0
    output = "  consumer.session.timeout.ms=50000 sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:"
    assert output in configs("--describe", "--group", user)[1]
    assert output in configs("--describe", "--entity-type", "groups")[1]


def test_client_metrics_subscription_is_altered_and_described(configs: Configs, user: str) -> None:
    assert configs("--alter", "--client-metrics", user, "--add-config", "interval.ms=10000")[0] == 0
    output = configs("--describe", "--client-metrics", user)[1].splitlines()
    source = "DYNAMIC_CLIENT_METRICS_CONFIG:interval.ms=10000"
    assert output == [
        f"Dynamic configs for client-metric {user} are:",
        f"  interval.ms=10000 sensitive=false synonyms={{{source}}}",
    ]


def test_quotas_are_set_for_users_clients_and_user_client_pairs(configs: Configs, user: str) -> None:
    assert configs("--alter", "--user", user, "--add-config", "producer_byte_rate=1024")[0] == 0
    assert configs("--alter", "--user", user, "--client", "c", "--add-config", "consumer_byte_rate=20000000")[0] == 0
    assert configs("--describe", "--user", user)[1] == (
        f"Quota configs for user-principal '{user}' are producer_byte_rate=1024.0\n"
    )
    both = f"Quota configs for user-principal '{user}', client-id 'c' are consumer_byte_rate=2.0E7\n"
    assert configs("--describe", "--user", user, "--client", "c")[1] == both
    assert both in configs("--describe", "--entity-type", "users", "--entity-type", "clients")[1]
    assert configs("--alter", "--user", user, "--delete-config", "producer_byte_rate")[0] == 0
    assert configs("--describe", "--user", user)[1] == ""


def test_entity_names_are_matched_to_entity_types_in_order(configs: Configs, user: str) -> None:
    types = ("--entity-type", "clients", "--entity-type", "users")
    names = ("--entity-default", "--entity-name", user)
    code, output, _ = configs("--alter", *types, *names, "--add-config", "request_percentage=50")
    assert (code, output) == (0, "Completed updating default config for clients in the cluster.\n")
    output = f"Quota configs for user-principal '{user}', the default client-id are request_percentage=50.0\n"
    assert configs("--describe", "--user", user, "--client-defaults")[1] == output


def test_scram_credential_is_set_described_and_removed(configs: Configs, user: str, ottla_broker: Broker) -> None:
    added = ("--add-config", "SCRAM-SHA-256=[iterations=8192,password=a,b=c],SCRAM-SHA-512=[password=x]")
    assert configs("--alter", "--user", user, *added)[0] == 0
    output = f"SCRAM credential configs for user-principal '{user}' are SCRAM-SHA-256=iterations=8192,"
    assert configs("--describe", "--user", user)[1] == f"{output} SCRAM-SHA-512=iterations=4096\n"
    assert configs("--alter", "--user", user, "--delete-config", "SCRAM-SHA-512")[0] == 0
    with KafkaAdminClient(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        (left,) = admin.describe_user_scram_credentials([user])[user]
    assert left == (ScramMechanism.SCRAM_SHA_256, 8192)
    scram = json.loads(configs("--describe", "--user", user, "--json")[1])["scram"]
    assert scram == [{"user": user, "mechanism": "SCRAM-SHA-256", "iterations": 8192}]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--describe", "--entity-type is needed: one of topics, brokers"),
        ("--describe --entity-name x", "--entity-name 'x' has no --entity-type"),
        ("--describe --topic a --topic b", "topics and topics cannot be used together"),
        ("--describe --topic a --user b", "topics and users cannot be used together"),
        (
            "--describe --user a --all --add-config b=c",
            "--add-config cannot be used with --describe: it belongs to --alter",
        ),
        ("--describe --broker x", "'x' is not allowed for brokers: expected a broker id"),
        ("--describe --entity-type topics --entity-default", "topics have no default entity"),
        ("--alter --topic t", "--alter needs --add-config, --add-config-file or --delete-config"),
        ("--alter --entity-type topics --add-config a=b", "--alter of topics needs --entity-name"),
        ("--alter --entity-type users --add-config a=b", "needs --entity-name or --entity-default"),
        ("--alter --topic t --add-config a=b --all", "--all cannot be used with --alter: it belongs to --describe"),
        ("--alter --topic t --add-config a=b --add-config-file f", "cannot be used together"),
        ("--alter --topic t --add-config a=b --delete-config a", "a would be set and removed at once"),
        ("--alter --topic t --add-config a", "'a' is not allowed: expected name=value"),
        ("--alter --topic nowhere --add-config retention.ms=1", "Topic 'nowhere' does not exist"),
        ("--alter --user u --add-config producer_byte_rate=many", "quotas are numbers"),
        ("--alter --user u --add-config bogus=1", "user u: Invalid configuration key bogus"),
        ("--alter --user u --delete-config request_percentage", "Invalid config(s): request_percentage"),
        ("--alter --user u --add-config a=1,SCRAM-SHA-256=[password=x]", "cannot be altered at once"),
        ("--alter --client c --add-config SCRAM-SHA-256=[password=x]", "belongs to a single user"),
        ("--alter --user-defaults --add-config SCRAM-SHA-256=[password=x]", "belongs to a single user"),
        ("--alter --user u --add-config SCRAM-SHA-256=[iterations=9,password=x]", "iterations=9 is less than 4096"),
        ("--alter --user u --add-config SCRAM-SHA-256=secret", "expected [password=…] or [iterations=N,password=…]"),
    ],
)
def test_invalid_arguments_are_rejected_in_one_line(configs: Configs, arguments: str, words: str) -> None:
    code, output, error = configs(*arguments.split())
    assert (code, output) == (1, "")
    assert words in error
    assert error.count("\n") == 1
    assert "secret" not in error


def test_empty_topic_name_is_rejected(configs: Configs) -> None:
    assert "--topic: '' is not allowed" in configs("--describe", "--topic", "")[2]


def test_config_list_keeps_commas_in_brackets_in_the_value() -> None:
    assert pairs("a=1, b=[2,3],c = x=y,") == {"a": "1", "b": "2,3", "c": "x=y"}
    with pytest.raises(ConfigurationError, match="'b'"):
        pairs("a=1,b")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.0"), (1024.0, "1024.0"), (9999999.0, "9999999.0"), (1e7, "1.0E7"), (12345678.0, "1.2345678E7")],
)
def test_java_double_formats_numbers_as_java(value: float, text: str) -> None:
    assert java_double(value) == text
    assert java_double(0.0005) == "5.0E-4"


def test_delete_config_reports_configs_that_are_not_set(configs: Configs, topic: str) -> None:
    topic_arguments = ("--alter", "--entity-type", "topics", "--entity-name", topic)
    code, output, error = configs(*topic_arguments, "--delete-config", "retention.ms,retentoin.ms")
    assert (code, output) == (0, f"Completed updating config for topic {topic}.\n")
    assert error == "Not set, so not removed: retention.ms, retentoin.ms\n"
    assert configs(*topic_arguments, "--add-config", "retention.ms=1")[0] == 0
    assert configs(*topic_arguments, "--delete-config", "retention.ms")[::2] == (0, "")


def test_zookeeper_option_is_rejected_with_the_option_to_use_instead(configs: Configs) -> None:
    code, _, error = configs("--zookeeper", "localhost:2181", "--describe", "--entity-type", "topics")
    assert code == 1
    (line,) = error.splitlines()
    assert line.endswith("Use --bootstrap-server HOST:PORT")


def test_unsupported_configs_are_rejected(configs: Configs, topic: str) -> None:
    code, _, error = configs(
        "--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", "remote.storage.enable=true"
    )
    assert code == 1
    assert "Tiered Storage functionality is disabled in the broker." in error
    code, _, error = configs(
        *("--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "cordoned.log.dirs=*")
    )
    assert code == 1
    assert "Cannot update these configs at default cluster level: cordoned.log.dirs" in error

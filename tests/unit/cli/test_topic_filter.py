"""Regular expressions for topics, interpreted as by Kafka's tools."""

from __future__ import annotations

import pytest

from ottla import Broker
from ottla.cli.framework.topic_filter import topic_filter
from ottla.cli.main import main
from ottla.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("one", {"one"}),
        ("o.*", {"one"}),
        ("one,two", {"one", "two"}),
        ("'one | two'", {"one", "two"}),
        ("", set()),
        (".*e", {"one", "three"}),
    ],
)
def test_topic_filter_matches_whole_names(text: str, matching: set[str]) -> None:
    pattern = topic_filter("--topic", text)
    assert {name for name in ("one", "two", "three") if pattern.fullmatch(name)} == matching


@pytest.mark.parametrize("text", ["o(", "[a-z&&[^x]]"])
def test_invalid_regex_is_reported_with_its_option(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^--topic: .* is an invalid regex: "):
        topic_filter("--topic", text)


def test_ottla_topics_reports_an_invalid_regex_in_one_line(
    capsys: pytest.CaptureFixture[str], ottla_broker: Broker
) -> None:
    at = ("--bootstrap-server", ottla_broker.bootstrap_servers)
    assert main(["topics", *at, "--list", "--topic", "o("]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Error while executing topic command : --topic: o( is an invalid regex")
    assert error.count("\n") == 1

"""Regular expressions for topics, read as Kafka's tools read them."""

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
def test_an_expression_has_to_match_the_whole_name(text: str, matching: set[str]) -> None:
    expected = topic_filter("--topic", text)
    assert {name for name in ("one", "two", "three") if expected.fullmatch(name)} == matching


@pytest.mark.parametrize("text", ["o(", "[a-z&&[^x]]"])
def test_what_is_no_expression_is_reported_with_its_option(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^--topic: .* is an invalid regex: "):
        topic_filter("--topic", text)


def test_ottla_topics_says_so_in_one_line(capsys: pytest.CaptureFixture[str], ottla_broker: Broker) -> None:
    at = ("--bootstrap-server", ottla_broker.bootstrap_servers)
    assert main(["topics", *at, "--list", "--topic", "o("]) == 1
    said = capsys.readouterr().err
    assert said.startswith("Error while executing topic command : --topic: o( is an invalid regex")
    assert said.count("\n") == 1

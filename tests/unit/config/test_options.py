"""Options: read from Kafka's names and from Python's, checked, frozen."""

from __future__ import annotations

import logging

import pytest

from ottla.config.consumer import ConsumerConfig
from ottla.config.options import REQUIRED, Config, Option, boolean, integer, number, one_of, text, words
from ottla.errors import ConfigurationError


class Example(Config, subject="example"):
    linger_ms = Option(5.0, number(at_least=0), "How long to wait.")
    acks = Option("all", one_of("all", "0", "1", aliases={-1: "all"}), "Who acknowledges.")
    enable_it = Option(False, boolean, "Switch.")
    names = Option[tuple[str, ...]]((), words(), "Names.")
    batch_size = Option(16384, integer(0), "Bytes.")


def test_kafka_names_and_python_names_mean_the_same() -> None:
    assert Example.from_kafka({"linger.ms": "20"}).linger_ms == Example.from_keywords(linger_ms=20).linger_ms == 20.0


def test_defaults_stand_where_nothing_is_given() -> None:
    config = Example.from_kafka({})
    assert (config.linger_ms, config.acks, config.batch_size) == (5.0, "all", 16384)


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("linger.ms", "-1", "at least 0"),
        ("linger.ms", "soon", "number"),
        ("linger.ms", "NaN", "number"),
        ("linger.ms", 10**400, "number"),
        ("acks", "some", "one of all, 0, 1"),
        ("enable.it", "yes", "true or false"),
        ("batch.size", 1.5, "whole number"),
        ("batch.size", True, "whole number"),
    ],
)
def test_a_wrong_value_names_option_value_and_what_is_allowed(key: str, value: object, allowed: str) -> None:
    with pytest.raises(ConfigurationError, match=allowed) as error:
        Example.from_kafka({key: value})
    assert key in str(error.value)
    assert repr(value) in str(error.value)


def test_a_wrong_secret_is_not_shown() -> None:
    with pytest.raises(ConfigurationError, match=r"^sasl\.jaas\.config: (?!.*hush).*not allowed"):
        ConsumerConfig.from_kafka({"bootstrap.servers": "h:1", "sasl.jaas.config": "SomeModule required password=hush"})


def test_an_unknown_keyword_is_a_type_error_that_names_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"lingerms.*did you mean linger_ms"):
        Example.from_keywords(lingerms=1)


def test_an_unknown_kafka_name_is_a_warning_that_names_the_nearest(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ottla.config"):
        config = Example.from_kafka({"linger.m": "1"})
    assert "did you mean linger.ms?" in caplog.text
    assert config.originals == {"linger.m": "1"}


def test_options_are_frozen_and_replace_makes_a_copy() -> None:
    config = Example.from_kafka({"acks": "1"})
    with pytest.raises(AttributeError, match=r"linger\.ms"):
        config.linger_ms = 3.0
    changed = config.replace({"linger.ms": 3})
    assert (changed.linger_ms, changed.acks, config.linger_ms) == (3.0, "1", 5.0)


def test_a_required_option_is_asked_for() -> None:
    class Needs(Config):
        bootstrap_servers = Option[str](REQUIRED, text, "Where to begin.")

    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers is required: Where to begin"):
        Needs.from_kafka({})


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(Example({"ssl.key.password": "secret"}))


def test_lists_come_from_text_and_from_sequences() -> None:
    assert Example.from_kafka({"names": "a, b"}).names == Example.from_keywords(names=["a", "b"]).names == ("a", "b")


def test_an_alias_is_another_spelling() -> None:
    assert Example.from_keywords(acks=-1).acks == "all"

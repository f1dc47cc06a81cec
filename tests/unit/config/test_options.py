"""Options of configs: Kafka's names and Python's, validation, defaults, immutability."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ottla.config.client import LIBRDKAFKA
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import REQUIRED, Config, Option, boolean, integer, number, one_of, text, words
from ottla.config.producer import ProducerConfig
from ottla.errors import ConfigurationError


class Example(Config, subject="example"):
    linger_ms = Option(5.0, number(at_least=0), "Delay.")
    acks = Option("all", one_of("all", "0", "1", aliases={-1: "all"}), "Who acknowledges.")
    enable_it = Option(False, boolean, "Switch.")
    names = Option[tuple[str, ...]]((), words(), "Names.")
    batch_size = Option(16384, integer(0), "Bytes.")


def test_kafka_names_and_python_names_are_equivalent() -> None:
    assert Example.from_kafka({"linger.ms": "20"}).linger_ms == Example.from_keywords(linger_ms=20).linger_ms == 20.0


def test_unset_options_have_defaults() -> None:
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
def test_invalid_value_error_names_option_value_and_allowed_values(key: str, value: object, allowed: str) -> None:
    with pytest.raises(ConfigurationError, match=allowed) as error:
        Example.from_kafka({key: value})
    assert key in str(error.value)
    assert repr(value) in str(error.value)


def test_invalid_secret_is_not_shown() -> None:
    with pytest.raises(ConfigurationError, match=r"^sasl\.jaas\.config: (?!.*hush).*not allowed"):
        ConsumerConfig.from_kafka({"bootstrap.servers": "h:1", "sasl.jaas.config": "SomeModule required password=hush"})


def test_unknown_keyword_raises_type_error_with_a_suggestion() -> None:
    with pytest.raises(TypeError, match=r"lingerms.*did you mean linger_ms"):
        Example.from_keywords(lingerms=1)


def test_unknown_kafka_name_logs_a_warning_with_a_suggestion(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ottla.config"):
        config = Example.from_kafka({"linger.m": "1"})
    assert "did you mean linger.ms?" in caplog.text
    assert config.originals == {"linger.m": "1"}


def test_name_of_librdkafka_suggests_the_option_of_this_meaning(caplog: pytest.LogCaptureFixture) -> None:
    configs = {"bootstrap.servers": "h:1", "message.timeout.ms": "1", "sasl.password": "x", "batch.num.messages": "9"}
    with caplog.at_level(logging.WARNING, "ottla.config"):
        ProducerConfig.from_kafka(configs)
    suggestions = [message.rpartition("; ")[2] for message in caplog.messages]
    assert suggestions == [f"did you mean {n}?" for n in ("delivery.timeout.ms", "sasl.plain.password", "batch.size")]
    with pytest.raises(TypeError, match=r"message_timeout_ms.*did you mean delivery_timeout_ms\?"):
        ProducerConfig.from_keywords(bootstrap_servers="h:1", message_timeout_ms=1)


def test_names_of_librdkafka_are_those_of_the_migration_page() -> None:
    options = {**ProducerConfig.options, **ConsumerConfig.options}
    assert not set(LIBRDKAFKA) & set(options)
    assert set(LIBRDKAFKA.values()) <= set(options)
    page = (Path(__file__).parents[3] / "docs/from-confluent-kafka.md").read_text()
    assert [name for name in LIBRDKAFKA if f"`{name}`" not in page] == []


def test_config_is_immutable_and_replace_returns_a_copy() -> None:
    config = Example.from_kafka({"acks": "1"})
    with pytest.raises(AttributeError, match=r"linger\.ms"):
        config.linger_ms = 3.0
    changed = config.replace({"linger.ms": 3})
    assert (changed.linger_ms, changed.acks, config.linger_ms) == (3.0, "1", 5.0)


def test_missing_required_option_is_rejected() -> None:
    class Needs(Config):
        bootstrap_servers = Option[str](REQUIRED, text, "Where to begin.")

    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers is required: Where to begin"):
        Needs.from_kafka({})


def test_repr_hides_passwords() -> None:
    assert "secret" not in repr(Example({"ssl.key.password": "secret"}))


def test_list_option_accepts_text_and_sequences() -> None:
    assert Example.from_kafka({"names": "a, b"}).names == Example.from_keywords(names=["a", "b"]).names == ("a", "b")


def test_alias_is_converted_to_the_canonical_value() -> None:
    assert Example.from_keywords(acks=-1).acks == "all"

"""Options of the Kafka source: parsing, defaults and validation."""

import logging
from pathlib import Path

import pytest

from ottla.errors import ConfigurationError
from ottla.model import TopicPartition
from ottla.spark.options.offset_range_limit import AtTimestamp, AtTimestamps, Earliest, Latest, Specific
from ottla.spark.options.options import OPTIONS, SourceOptions, read_options
from ottla.spark.options.sink_options import SINK_OPTIONS
from ottla.spark.sink.sql_sink import SQL_OPTIONS

MINIMAL = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}


def batch(**more: str) -> SourceOptions:
    return read_options({**MINIMAL, **more}, streaming=False)


def stream(**more: str) -> SourceOptions:
    return read_options({**MINIMAL, **more}, streaming=True)


def test_option_defaults_are_those_of_the_kafka_connector() -> None:
    assert (batch().starting, batch().ending) == (Earliest(), Latest())
    assert stream().starting == Latest()
    options = batch()
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.min_partitions is None
    assert options.max_trigger_delay_ms == 900_000


def test_option_names_are_case_insensitive() -> None:
    assert batch(STARTINGOFFSETS="earliest", minpartitions="7").min_partitions == 7


def test_subscribe_and_assign_are_parsed() -> None:
    assert batch().subscription.topics == ("a",)
    assert batch(subscribe=" a, b ,").subscription.topics == ("a", "b")
    assign = read_options({"kafka.bootstrap.servers": "h:1", "assign": '{"a": [0, 2]}'}, streaming=False).subscription
    assert assign.assigned == frozenset({TopicPartition("a", 0), TopicPartition("a", 2)})
    assert assign.matches("a")
    assert not assign.matches("b")


def test_subscribe_pattern_matches_anywhere_in_the_name() -> None:
    pattern = read_options({"kafka.bootstrap.servers": "h:1", "subscribePattern": "b.d"}, streaming=True).subscription
    assert pattern.matches("abcde")
    assert not pattern.matches("abde")


def test_starting_and_ending_offsets_are_parsed() -> None:
    json = '{"a": {"0": 23, "1": -2}}'
    assert batch(startingOffsets=json).starting == Specific({TopicPartition("a", 0): 23, TopicPartition("a", 1): -2})
    assert batch(endingOffsetsByTimestamp='{"a": {"0": 5}}').ending == AtTimestamps({TopicPartition("a", 0): 5}, True)
    assert stream(startingTimestamp="99").starting == AtTimestamp(99, False)
    assert stream(startingTimestamp="99", startingOffsetsByTimestampStrategy="latest").starting == AtTimestamp(99, True)


def test_starting_timestamp_overrides_timestamps_per_partition_and_offsets() -> None:
    by_time = {"startingOffsetsByTimestamp": '{"a": {"0": 5}}', "startingOffsets": "earliest"}
    assert batch(**by_time).starting == AtTimestamps({TopicPartition("a", 0): 5}, False)
    assert batch(**by_time, startingTimestamp="7").starting == AtTimestamp(7, False)


def test_kafka_options_are_passed_on_without_their_prefix() -> None:
    kafka = batch(**{"kafka.client.id": "me"}).kafka
    assert kafka == {"bootstrap.servers": "localhost:9092", "client.id": "me"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": ","}, "subscribe"),
        ({"assign": '{"a": [0]}'}, "assign and subscribe"),
        ({"startingOffsets": "latest"}, "startingOffsets"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "startingOffsets"),
        ({"endingOffsets": "earliest"}, "endingOffsets"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "endingOffsets"),
        ({"startingOffsets": "first"}, "startingOffsets: 'first'"),
        ({"startingOffsets": '{"a": 3}'}, "startingOffsets"),
        ({"startingOffsets": '{"a": {"0": "x"}}'}, "startingOffsets"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "startingOffsets"),
        ({"endingOffsets": '{"a": {"0": -3}}'}, "endingOffsets"),
        ({"minPartitions": "0"}, "minPartitions: '0'"),
        ({"includeHeaders": "yes"}, "includeHeaders: 'yes'"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay: 'soon'"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "minOffsetsPerTrigger"),
        ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset"),
        ({"kafka.key.deserializer": "x"}, "kafka.key.deserializer"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit"),
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers"),
    ],
)
def test_invalid_option_is_named_in_the_error(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        batch(**options)
    assert message in str(raised.value)


@pytest.mark.parametrize("partition", ['"0"', "true", "0.5", "null"])
def test_partition_in_assign_must_be_a_whole_number(partition: str) -> None:
    with pytest.raises(ConfigurationError, match="assign: .* is not a partition number"):
        read_options({"kafka.bootstrap.servers": "h:1", "assign": f'{{"a": [{partition}]}}'}, streaming=False)


@pytest.mark.parametrize("pattern", ["[a-z&&[^n]]$", "a("])
def test_subscribe_pattern_that_differs_between_python_and_java_is_rejected(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="subscribePattern"):
        read_options({"kafka.bootstrap.servers": "h:1", "subscribePattern": pattern}, streaming=False)


def test_numbers_may_have_a_plus_sign() -> None:
    assert batch(startingTimestamp="+99").starting == AtTimestamp(99, False)


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp"])
def test_ending_offsets_are_rejected_for_a_stream(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        stream(**{name: "latest"})


def test_missing_subscription_error_names_the_three_options() -> None:
    with pytest.raises(ConfigurationError, match="assign, subscribe, subscribePattern"):
        read_options({"kafka.bootstrap.servers": "h:1"}, streaming=False)


def test_unknown_option_logs_a_warning_with_a_suggestion(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        batch(minPartition="3")
    assert "minPartition" in caplog.text
    assert "did you mean minPartitions?" in caplog.text


def test_docs_list_every_spark_option() -> None:
    page = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
    for row in (*OPTIONS, *SINK_OPTIONS, *SQL_OPTIONS):
        assert f"| `{row.name}` | {row.default} | {row.applies_to} | {row.doc} |" in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"startingOffsets": '{"a": {"0": 4}}', "endingOffsets": '{"a": {"0": 2}}'},
            r"startingOffsets is after endingOffsets \(a-0: 4 and 2\)",
        ),
        ({"startingTimestamp": "9", "endingTimestamp": "2"}, "startingTimestamp.*endingTimestamp.*9 and 2"),
        (
            {"startingOffsetsByTimestamp": '{"a": {"0": 9}}', "endingOffsetsByTimestamp": '{"a": {"0": 2}}'},
            "startingOffsetsByTimestamp.*a-0: 9 and 2",
        ),
    ],
)
def test_start_after_the_end_is_rejected(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        batch(**options)


def test_latest_as_ending_offset_is_not_compared_with_the_start() -> None:
    batch(startingOffsets='{"a": {"0": 4}}', endingOffsets='{"a": {"0": -1}}')


def test_durations_are_parsed_as_by_spark() -> None:
    assert [stream(maxTriggerDelay=text).max_trigger_delay_ms for text in ("5", "3000us", "2s", "1min", "1h")] == [
        5,
        3,
        2000,
        60_000,
        3_600_000,
    ]


def test_invalid_value_of_an_ignored_option_is_reported() -> None:
    with pytest.raises(ConfigurationError, match="maxRecordsPerPartition: '0'"):
        batch(maxRecordsPerPartition="0")

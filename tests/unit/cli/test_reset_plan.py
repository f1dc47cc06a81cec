"""Plans for `consumer-groups --reset-offsets`, without a broker."""

from __future__ import annotations

import pytest

from ottla import TopicPartition
from ottla.cli.consumer_groups import reset_plan as resets
from ottla.errors import ConfigurationError

V0, V1 = TopicPartition("v", 0), TopicPartition("v", 1)


def test_scope_has_partitions_and_whole_topics() -> None:
    assert resets.scope(["v:1,0", "w", "v:1"]) == ([V1, V0], ["w"])


@pytest.mark.parametrize("text", ["v:", ":1", "v:1:2", "v:x", "v:1,,2", "v:-1", "v:2147483648"])
def test_malformed_scope_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError):
        resets.scope([text])


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2023-11-14T22:13:20.000", 1_700_000_000_000),
        ("2023-11-14T22:13:20.5Z", 1_700_000_000_005),
        ("2023-11-14T23:13:20.000+01:00", 1_700_000_000_000),
        ("2023-11-14T20:43:20.000-0130", 1_700_000_000_000),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_datetime_without_offset_is_utc(text: str, ms: int) -> None:
    assert resets.time_of(text) == ms


@pytest.mark.parametrize("text", ["2023-11-14", "2023-11-14 22:13:20.000", "2023-13-14T22:13:20.000", "soon"])
def test_malformed_datetime_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--to-datetime"):
        resets.time_of(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("P1D", 86_400_000),
        ("PT1H30M", 5_400_000),
        ("p1dt2h3m4.5s", 93_784_500),
        ("-PT1S", -1000),
        ("PT-0.25S", -250),
        ("P1DT-1H", 82_800_000),
    ],
)
def test_duration_parts_may_have_signs(text: str, ms: int) -> None:
    assert resets.duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P1H", "P1Y", "PT1.5H"])
def test_malformed_duration_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--by-duration"):
        resets.duration_ms(text)


def test_offsets_are_clamped_to_the_log_with_a_warning() -> None:
    ends = {V0: 9, V1: 9}
    new, warnings = resets.clamped({V0: 12, V1: 1}, {V0: 3, V1: 3}, ends)
    assert new == {V0: 9, V1: 3}
    assert warnings == [
        "New offset (12) is higher than latest offset for topic partition v-0. Value will be set to 9.",
        "New offset (1) is lower than earliest offset for topic partition v-1. Value will be set to 3.",
    ]
    assert resets.clamped({V0: 9, V1: 3}, {V0: 3, V1: 3}, ends) == ({V0: 9, V1: 3}, [])


def test_shift_requires_a_committed_offset() -> None:
    assert resets.shifted([V0], {V0: 5, V1: 1}, -7) == {V0: -2}
    with pytest.raises(ConfigurationError, match="partition v-1 since there is no current committed offset"):
        resets.shifted([V0, V1], {V0: 5}, 1)


def test_exported_plan_can_be_read_again() -> None:
    plan = {"a, b": {V0: 1}, "g" * 25: {V1: 2, V0: 7}}
    text = resets.exported(plan, alone=False)
    assert text == f'"a, b",v,0,1\n"{"g" * 25}",v,0,7\n"{"g" * 25}",v,1,2\n'
    assert resets.read_plan("f", text, []) == plan
    assert resets.read_plan("f", resets.exported({"g": {V1: 2}}, alone=True), ["g"]) == {"g": {V1: 2}}


@pytest.mark.parametrize(
    ("text", "groups", "words"),
    [
        ("v,0,1\nv,0\n", ["g"], "f: line 2: expected topic,partition,offset"),
        ("v,0,1\n\nv,0\n", ["g"], "f: line 3: expected topic,partition,offset"),
        ("v,0,1\n", ["g", "h"], "f: line 1: expected group,topic,partition,offset"),
        ("v,0,-1\n", ["g"], "f: line 1: '-1' is not allowed"),
        ("v,0,1\n" + "v" * 200_000, ["g"], "f: line 2: field larger than"),
        ("g,v,x,1\n", [], "f: line 1: 'x' is not allowed"),
    ],
)
def test_malformed_plan_is_rejected_with_its_line_number(text: str, groups: list[str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        resets.read_plan("f", text, groups)


def test_table_columns_fit_long_names() -> None:
    assert resets.table({"g" * 17: {V0: 3}}) == (
        f"\n{'GROUP':<17} {'TOPIC':<15} PARTITION  NEW-OFFSET\n{'g' * 17} {'v':<15} 0          3"
    )
    assert resets.table({}) == ""

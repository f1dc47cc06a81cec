"""Pipeline events parsed from messages of Spark."""

import datetime as dt

import pytest

from ottla_pipelines.declarative.events import STATES, Event, as_json, event_of, reason_of

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("message", "flow", "state"),
    [
        ("Flow spark_catalog.default.visits is RUNNING.", "visits", "RUNNING"),
        ("Flow to_out has COMPLETED.", "to_out", "COMPLETED"),
        ("Run is COMPLETED.", None, "COMPLETED"),
        ("Flow spark_catalog.shop.visits is QUEUED.", "spark_catalog.shop.visits", "QUEUED"),
    ],
)
def test_event_messages_of_spark_are_parsed(message: str, flow: str | None, state: str) -> None:
    event = event_of(NOW, message)
    assert (event.flow, event.state) == (flow, state)
    assert state in STATES


def test_failed_flow_has_the_first_error_line_as_reason() -> None:
    event = event_of(NOW, "Flow 'spark_catalog.default.visits' has FAILED.\nError: [X] no brokers\n=== Query ===\nmore")
    assert (event.flow, event.state, event.reason) == ("visits", "FAILED", "[X] no brokers")


def test_unresolved_flow_has_a_headline_and_a_reason() -> None:
    """The rest of the message is the query plan."""
    event = event_of(NOW, "Failed to resolve flow: 'a.b.c'.\nError: [X] no column; line 1;\n'Project [x]\n+- Relation")
    assert (event.headline, event.reason) == ("Failed to resolve flow: 'a.b.c'.", "[X] no column; line 1;")


def test_unknown_event_message_is_unchanged() -> None:
    assert event_of(NOW, "Something else.") == Event(NOW, None, None, "Something else.")
    assert as_json(event_of(NOW, "Something else.")) == {"time": NOW.isoformat(), "message": "Something else."}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            "[STREAM_FAILED] Query [id = 4a-b, runId = 5c] terminated with exception: [USER_RAISED_EXCEPTION] "
            "expectation not met: x; at visits 0 7 SQLSTATE: P0001 SQLSTATE: XXKST\n=== Streaming Query ===\nmore",
            "[USER_RAISED_EXCEPTION] expectation not met: x; at visits 0 7",
        ),
        (
            "[STREAM_FAILED] Query [id = 4a, runId = 5c] terminated with exception: Failed when the source performs\n"
            'Traceback (most recent call last):\n  File "x.py", line 1\n'
            "ottla.errors.ConfigurationError: subscribe: no such topic SQLSTATE: 38000\n\nCurrent State: ACTIVE",
            "ottla.errors.ConfigurationError: subscribe: no such topic",
        ),
        ("", ""),
    ],
)
def test_reason_of_an_error_is_one_line(error: str, reason: str) -> None:
    assert reason_of(error) == reason

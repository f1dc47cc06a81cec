"""Names of errors' classes in Java."""

from __future__ import annotations

import pytest

from ottla import errors
from ottla.cli.framework.java_errors import OTHERS, java_class


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (errors.UnknownTopicOrPartitionError(), "UnknownTopicOrPartitionException"),
        (errors.TopicAuthorizationFailedError(), "TopicAuthorizationException"),
        (errors.MessageTooLargeError(), "RecordTooLargeException"),
        (errors.KafkaTimeoutError(), "TimeoutException"),
    ],
)
def test_an_error_has_the_class_that_java_has_for_it(error: errors.KafkaError, name: str) -> None:
    assert java_class(error) == f"org.apache.kafka.common.errors.{name}"


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_called_otherwise_is_an_error_of_ours(name: str) -> None:
    assert java_class(getattr(errors, f"{name}Error")()) == OTHERS[name]

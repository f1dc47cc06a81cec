"""Names of Java's exception classes for errors."""

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
def test_error_is_mapped_to_its_java_exception_class(error: errors.KafkaError, name: str) -> None:
    assert java_class(error) == f"org.apache.kafka.common.errors.{name}"


@pytest.mark.parametrize("name", OTHERS)
def test_java_class_with_another_name_belongs_to_an_existing_error(name: str) -> None:
    assert java_class(getattr(errors, f"{name}Error")()) == OTHERS[name]

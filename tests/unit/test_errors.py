"""Kafka's error codes and their exception classes."""

from __future__ import annotations

import pytest

from ottla import errors


def test_every_error_code_from_1_to_133_has_one_class() -> None:
    assert set(errors.BY_CODE) == {-1, *range(1, 134)}


def test_error_names_are_unique() -> None:
    names = [error.name for error in errors.BY_CODE.values()]
    assert len(set(names)) == len(names)


def test_error_without_a_message_has_its_description() -> None:
    assert str(errors.OffsetOutOfRangeError()) == "The offset is not in the log of the partition."


@pytest.mark.parametrize("code", [6, 13, 14, 16, 3, 5])
def test_transient_errors_are_retriable(code: int) -> None:
    assert errors.for_code(code).retriable


@pytest.mark.parametrize("code", [1, 10, 17, 29, 45])
def test_permanent_errors_are_not_retriable(code: int) -> None:
    assert not errors.for_code(code).retriable


def test_unknown_error_code_is_unknown_server_error() -> None:
    assert errors.for_code(9999) is errors.UnknownServerError


def test_exception_without_error_code_becomes_unknown_server_error() -> None:
    assert errors.code_of(ZeroDivisionError()) == -1
    assert errors.code_of(errors.ConfigurationError("x")) == -1
    assert errors.code_of(errors.TopicAlreadyExistsError()) == 36

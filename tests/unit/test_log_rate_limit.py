"""Rate limits of repeated log records."""

import logging

from ottla.logs import (
    MAX_REPEATED,
    MAX_WINDOWS,
    PER_WINDOW,
    REPEATED_SECONDS,
    WINDOW_SECONDS,
    RateLimitFilter,
    limit_repeated_errors,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def log_record(text: str) -> logging.LogRecord:
    return logging.LogRecord("ottla.net", logging.WARNING, __file__, 1, text, ("10.0.0.1",), None)


def test_repeated_log_records_are_limited_and_counted_per_message() -> None:
    clock = Clock()
    flood = RateLimitFilter(clock)
    assert sum(flood.filter(log_record("%s: garbage")) for _ in range(1000)) == PER_WINDOW
    assert flood.filter(log_record("%s: too many"))
    clock.now += WINDOW_SECONDS
    later = log_record("%s: garbage")
    assert flood.filter(later)
    assert later.getMessage() == f"10.0.0.1: garbage (and {1000 - PER_WINDOW} similar records were not logged)"
    clock.now += WINDOW_SECONDS
    assert flood.filter(log_record("%s: garbage"))


def test_repeated_error_is_logged_once_a_minute_and_others_at_once() -> None:
    clock = Clock()
    logger = logging.Logger("errors")
    limit_repeated_errors(logger, clock)
    assert [bool(logger.filter(log_record(text))) for text in ("%s: full", "%s: full", "%s: broken")] == [
        True,
        False,
        True,
    ]
    clock.now += REPEATED_SECONDS
    assert logger.filter(log_record("%s: full"))


def test_errors_of_thousands_of_partitions_are_limited() -> None:
    clock = Clock()
    logger = logging.Logger("errors")
    limit_repeated_errors(logger, clock)
    logged = 0
    for _ in range(3):
        for partition in range(MAX_WINDOWS + 100):
            record = logging.LogRecord("e", logging.WARNING, __file__, 1, "Cannot append to t-%d", (partition,), None)
            logged += bool(logger.filter(record))
        clock.now += 1
    assert logged == MAX_REPEATED

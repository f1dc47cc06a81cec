"""Errors as pages: status, title, and advice. A traceback is logged, and never shown."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla import errors


class ErrorPage(NamedTuple):
    """The page of an error."""

    status: int
    title: str
    text: str
    advice: str = ""


UNREACHABLE: Final = "The cluster does not answer"
ADVICE: Final = (
    "Check that a broker is running at this address, and that --bootstrap-server and the credentials of "
    "--command-config are right. The console tries again every few seconds, and so does this page."
)
ABSENT: Final = (
    errors.UnknownTopicOrPartitionError,
    errors.UnknownTopicIdError,
    errors.GroupIdNotFoundError,
    errors.TransactionalIdNotFoundError,
    errors.ResourceNotFoundError,
)
DENIED: Final = (
    errors.TopicAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.ClusterAuthorizationFailedError,
    errors.TransactionalIdAuthorizationFailedError,
)


def error_page(error: BaseException, reason: str = "") -> ErrorPage:
    """Return the page of an error; `reason` is why the cluster does not answer."""
    match error:
        case errors.KafkaTimeoutError() | errors.BrokerConnectionError() | errors.BrokerNotAvailableError():
            return ErrorPage(503, UNREACHABLE, _text(error), ADVICE)
        case TimeoutError():
            return ErrorPage(503, UNREACHABLE, reason or "no answer in time", ADVICE)
        case errors.KafkaError() if isinstance(error, ABSENT):
            return ErrorPage(404, "There is no such resource", _text(error), "It may have been deleted meanwhile.")
        case errors.KafkaError() if isinstance(error, DENIED):
            advice = "The console connects with one user for all; an ACL has to allow this user the operation."
            return ErrorPage(403, "The cluster denies this", _text(error), advice)
        case errors.KafkaError():
            return ErrorPage(400, "The cluster rejects this", f"{type(error).__name__}: {_text(error)}")
    return ErrorPage(500, "The console has failed", "The error is in the console's log.", "Please report it.")


def _text(error: BaseException) -> str:
    return str(error) or (type(error).__doc__ or type(error).__name__).split("\n")[0]

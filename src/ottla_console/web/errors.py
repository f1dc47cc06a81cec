"""Error pages with status, title and advice. Tracebacks are only logged."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla import errors


class ErrorPage(NamedTuple):
    """The content of an error page."""

    status: int
    title: str
    text: str
    advice: str = ""


UNREACHABLE: Final = "The cluster does not respond"
ADVICE: Final = (
    "Check that a broker is running at this address, and that --bootstrap-server and the credentials of "
    "--command-config are correct."
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
    """Return the error page for an exception. `reason` explains why the cluster does not respond, if that is known."""
    match error:
        case errors.KafkaTimeoutError() | errors.BrokerConnectionError() | errors.BrokerNotAvailableError():
            return ErrorPage(503, UNREACHABLE, _text(error), ADVICE)
        case TimeoutError():
            return ErrorPage(503, UNREACHABLE, reason or "no response in time", ADVICE)
        case errors.KafkaError() if isinstance(error, ABSENT):
            return ErrorPage(404, "Not found", _text(error), "It may have been deleted.")
        case errors.KafkaError() if isinstance(error, DENIED):
            advice = "The console uses the same principal for all users; an ACL must allow it this operation."
            return ErrorPage(403, "Not authorized by the cluster", _text(error), advice)
        case errors.KafkaError():
            return ErrorPage(400, "Rejected by the cluster", f"{type(error).__name__}: {_text(error)}")
    return ErrorPage(500, "Internal error of the console", "The console's log has the traceback.", "Please report it.")


def _text(error: BaseException) -> str:
    return str(error) or (type(error).__doc__ or type(error).__name__).split("\n")[0]

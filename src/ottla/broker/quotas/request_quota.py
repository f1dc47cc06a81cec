"""Measurement of one request for its client's quotas. Used only if quotas are set."""

from __future__ import annotations

from ottla.broker.quotas.client_quotas import CONSUMER_BYTES, PRODUCER_BYTES, REQUEST_PERCENT, Quotas
from ottla.broker.request_context import RequestContext
from ottla.broker.request_time import RequestTime
from ottla.net.server.connection import Reply
from ottla.protocol.message import Response

PRODUCE, FETCH = 0, 1


class RequestQuotaTracker:
    """Measures the bytes of a Produce request or of the response to a Fetch, and the time of any request on the event
    loop and in workers.
    """

    __slots__ = ("_api_key", "_context", "_nbytes", "_quotas", "spent")

    def __init__(self, quotas: Quotas, context: RequestContext, api_key: int, nbytes: int, began: float) -> None:
        """`began`: when the broker began to decode the request."""
        self._quotas = quotas
        self._context = context
        self._api_key = api_key
        self._nbytes = nbytes
        self.spent = RequestTime(began)

    def finish(self, answer: Response | None, reply: Reply) -> bool:
        """Count the request against its quotas, and throttle the connection if one is exceeded.

        Return whether this has set the `throttle_time_ms` of `answer`.
        """
        context, user = self._context, self._context.user
        wait = 0.0
        if self._api_key == PRODUCE:
            wait = self._quotas.wait_seconds(PRODUCER_BYTES, user, context.client_id, self._nbytes)
        elif self._api_key == FETCH and reply:
            nbytes = sum(c.nbytes if hasattr(c, "nbytes") else len(c) for c in reply)
            wait = self._quotas.wait_seconds(CONSUMER_BYTES, user, context.client_id, nbytes)
        wait = max(wait, self._quotas.wait_seconds(REQUEST_PERCENT, user, context.client_id, 100 * self.spent.seconds))
        if wait <= 0:
            return False
        throttle_ms = context.throttle(wait)
        if answer is None or not hasattr(answer, "throttle_time_ms"):
            return False
        answer.throttle_time_ms = max(throttle_ms, answer.throttle_time_ms)
        return True

"""Dispatches requests: decodes header and body, checks the version, calls the handler, and encodes the response.

Exceptions that handlers raise become error responses here. As in Kafka, a request that cannot be decoded or has an
unsupported version closes the connection, because it cannot be answered; only an unsupported version of ApiVersions is
answered.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from ottla import errors
from ottla.broker.apis import BY_KEY, ApiEntry, Handler
from ottla.broker.broker_context import BrokerContext
from ottla.broker.monitoring.request_log import log as request_log
from ottla.broker.monitoring.request_log import logged
from ottla.broker.monitoring.request_stats import ApiStats
from ottla.broker.quotas.request_quota import RequestQuotaTracker
from ottla.broker.request_context import RequestContext
from ottla.broker.request_parts import exceeding, handle_in_parts
from ottla.broker.request_time import timed
from ottla.cluster.interbroker.membership_proof import MEMBER
from ottla.net.server.connection import Chunk as SentChunk
from ottla.net.server.connection import CloseConnectionError, Connection, Reply
from ottla.protocol.apis import APIS
from ottla.protocol.header import API_VERSIONS, RequestHeader, decode_request_header, encode_response_header
from ottla.protocol.message import Request, Response, decode, decode_in_slices, encode_chunks, encode_chunks_in_slices
from ottla.protocol.wire import Chunk
from ottla.security.acl import ResourceType

log = logging.getLogger("ottla.broker")

LENGTH_PLACE = bytes(4)
PRODUCE, FETCH = 0, 1
NO_CONTROLLER = -1
ELECTION_SECONDS = 5.0
"""Maximum time in seconds that a request for the controller waits for an election."""
SMALL_BYTES = 4096
"""Requests up to this size in bytes are decoded without pauses, because that does not take long."""
INNER = {PRODUCE: "partition_responses", FETCH: "partitions"}
"""The name of the array of partitions in responses to Produce and Fetch, by API key."""
SHORT_ITEMS = 16
MAX_BROKER_ITEMS = 2**31
"""Maximum number of items in requests of brokers: in effect no limit."""
T = TypeVar("T")
SERVED_BEFORE_METADATA = frozenset(
    api.key
    for api in APIS
    if api.name
    in {
        "ApiVersions",
        "SaslHandshake",
        "SaslAuthenticate",
        "Fetch",
        "LeaderAndIsr",
        "StopReplica",
        "UpdateMetadata",
        "ControlledShutdown",
    }
)
"""APIs that are handled before this broker has received the cluster's metadata: handshakes, which the controller needs
to send the metadata, and some APIs that other brokers call.
"""


Interceptor = Callable[
    [ApiEntry, Handler, Request[Any], RequestContext], "Response | Awaitable[Response | None] | None"
]
"""Called instead of the handler of a request. It receives the handler, and may call it."""


class ServedApi(NamedTuple):
    """An API that has been requested: its row, and the objects that its requests need."""

    entry: ApiEntry
    versions: range
    handler: Handler
    request: type[Request[Any]]
    stats: ApiStats
    for_followers: ServedApi | None = None
    """For Fetch: the entry for fetches of followers, which are counted separately; None in that entry itself, and for
    other APIs.
    """


class Dispatch:
    """Processes the requests of all listeners."""

    def __init__(self, broker: BrokerContext) -> None:
        self.broker = broker
        self._quotas = broker.quotas
        self._following = broker.controller_requests
        self._in_cluster = broker.in_cluster
        self._apis: dict[int, ServedApi] = {}
        self._interceptor: Interceptor | None = None

    def intercept(self, interceptor: Interceptor | None) -> None:
        """Call an interceptor instead of the handlers of all APIs; None: call the handlers again.

        An intercepted request is not split into parts. The interceptor is built into each API's handler when the API is
        next requested, so a broker without one does no additional work per request.
        """
        self._interceptor = interceptor
        self._apis.clear()

    def __call__(self, frame: memoryview, connection: Connection) -> Reply | Awaitable[Reply]:
        began = time.perf_counter()
        is_logged = 0 < request_log.level <= logging.DEBUG  # the level set for this logger, not an inherited one
        reply: Reply | Awaitable[Reply]
        try:
            header, pos = decode_request_header(frame)
            api = self._apis.get(header.api_key) or self._api(header.api_key)
            entry, request_class = api.entry, api.request
            version = header.api_version
            if version not in api.versions:
                reply = self._other_version(header, entry)
                return logged(reply, header, connection, len(frame), began) if is_logged else reply
            context = RequestContext(self.broker, connection, version, header.client_id or "")
            is_of_broker = MEMBER in connection.state
            if entry.inter_broker_since is not None and version >= entry.inter_broker_since:
                try:
                    context.require_broker()
                    is_of_broker = True
                except errors.ClusterAuthorizationFailedError as error:
                    api = api._replace(handler=rejecting(error))
            steps = None
            if len(frame) <= SMALL_BYTES:
                request = decode(request_class, frame, version, pos)
            else:
                # only for brokers without a limit: decoding is then arbitrarily expensive
                most = MAX_BROKER_ITEMS if is_of_broker else entry.max_items
                steps = decode_in_slices(request_class, frame, version, pos, most)
                try:
                    next(steps)
                except StopIteration as done:
                    request, steps = done.value, None
        except (errors.MalformedMessageError, errors.UnsupportedVersionError) as error:
            raise CloseConnectionError(f"cannot decode a request: {error}") from None
        if api.for_followers is not None and MEMBER in connection.state:
            api = api.for_followers
        connection.send_times = api.stats.send
        # As in Kafka, quotas do not apply to brokers: throttled followers would leave the ISR.
        meter = (
            RequestQuotaTracker(self._quotas, context, header.api_key, len(frame), began)
            if self._quotas.active and not is_of_broker
            else None
        )
        if steps is not None:
            reply = self._decode_and_handle(steps, header, api, context, meter)
        else:
            reply = self._handle(request, header, api, context, meter)
        if is_logged:
            reply = logged(reply, header, connection, len(frame), began)
        if isinstance(reply, list) or not isinstance(reply, Awaitable):  # the first check is the faster one
            api.stats.record(version, len(frame), began)
            return reply
        if meter is not None:
            meter.spent.pause()  # from here on, the time of each step is measured
            reply = timed(reply, meter.spent)
        return api.stats.measured(reply, version, len(frame), began)

    async def _decode_and_handle(
        self,
        steps: Generator[None, None, Request[Any]],
        header: RequestHeader,
        api: ServedApi,
        context: RequestContext,
        meter: RequestQuotaTracker | None,
    ) -> Reply:
        """Decode and handle a request with many items. Other requests are processed in between."""
        try:
            request = await in_slices(steps)
        except errors.MalformedMessageError as error:
            raise CloseConnectionError(f"cannot decode a request: {error}") from None
        reply = self._handle(request, header, api, context, meter)
        return await reply if isinstance(reply, Awaitable) else reply

    def _handle(
        self,
        request: Request[Any],
        header: RequestHeader,
        api: ServedApi,
        context: RequestContext,
        meter: RequestQuotaTracker | None,
    ) -> Reply | Awaitable[Reply]:
        entry, handler = api.entry, api.handler
        answer: Response | Awaitable[Response | None] | None
        try:
            if entry.required_cluster_operation is not None:
                context.require(entry.required_cluster_operation, ResourceType.CLUSTER)
            path = exceeding(request, entry.parts) if entry.parts else None
            if path is not None:
                levels = path.count(".") if entry.merged_levels is None else entry.merged_levels
                answer = handle_in_parts(lambda part: self._start(entry, handler, part, context), request, path, levels)
            else:
                answer = self._start(entry, handler, request, context)
        except errors.KafkaError as error:
            answer = failure(entry, request, header.api_version, error)
        except Exception as error:
            # a bug in the broker must neither stop it nor leave the client without a response
            answer = self._unexpected(entry, request, header, error)
        if answer is None or isinstance(answer, Response):
            return _finish(answer, header, api.stats, meter)
        if header.api_key != PRODUCE:
            context.connection.release_frame()  # only records are still read from the frame later
        return self._later(answer, request, header, api, meter)

    def _start(
        self, entry: ApiEntry, handler: Handler, request: Request[Any], context: RequestContext
    ) -> Response | Awaitable[Response | None] | None:
        if not (self._following.is_initialized or request.API_KEY in SERVED_BEFORE_METADATA):
            return self._when_initialized(handler, request, context)
        if entry.by_controller and self._is_electing:
            return self._when_elected(handler, request, context)
        return handler(request, context)

    async def _when_initialized(
        self, handler: Handler, request: Request[Any], context: RequestContext
    ) -> Response | None:
        """Handle a request when this broker has received the cluster's metadata, or after INITIALIZATION_SECONDS.

        Before that, the broker would report all topics as unknown.
        """
        await self._following.wait_initialized()
        answer = handler(request, context)
        return await answer if isinstance(answer, Awaitable) else answer

    @property
    def _is_electing(self) -> bool:
        """Whether this broker is not the active controller and knows no other one, as during a controller election."""
        broker = self.broker
        return not broker.controller.is_active and broker.image.controller_id in (broker.broker_id, NO_CONTROLLER)

    async def _when_elected(self, handler: Handler, request: Request[Any], context: RequestContext) -> Response | None:
        """Handle a request after the controller election, or after ELECTION_SECONDS.

        An election starts, for example, when the znode /controller is deleted.
        """
        await self.broker.metadata_cache.wait_for(lambda _: not self._is_electing, ELECTION_SECONDS)
        answer = handler(request, context)
        return await answer if isinstance(answer, Awaitable) else answer

    async def _later(
        self,
        pending: Awaitable[Response | None],
        request: Request[Any],
        header: RequestHeader,
        api: ServedApi,
        meter: RequestQuotaTracker | None,
    ) -> Reply:
        try:
            answer = await pending
        except errors.KafkaError as error:
            answer = failure(api.entry, request, header.api_version, error)
        except Exception as error:
            answer = self._unexpected(api.entry, request, header, error)
        reply = _finish(answer, header, api.stats, meter)
        return await reply if isinstance(reply, Awaitable) else reply

    def _api(self, key: int) -> ServedApi:
        entry = BY_KEY.get(key)
        if entry is None:
            raise errors.UnsupportedVersionError(f"API {key} is not served")
        versions = entry.versions(in_cluster=self._in_cluster)
        stats = self.broker.request_stats
        name = "FetchConsumer" if key == FETCH else entry.name
        handler = entry.handler
        if self._interceptor is not None:
            handler, entry = functools.partial(self._interceptor, entry, handler), entry._replace(parts=())
        api = ServedApi(entry, versions, handler, entry.api.request, stats.add(name))
        if key == FETCH:
            api = api._replace(for_followers=api._replace(stats=stats.add("FetchFollower")))
        self._apis[key] = api
        return api

    def _other_version(self, header: RequestHeader, entry: ApiEntry) -> Reply:
        if header.api_key != API_VERSIONS:
            raise errors.UnsupportedVersionError(f"{entry.name} version {header.api_version} is not served")
        from ottla.broker.handlers.api_versions import unsupported

        return framed(unsupported(), header._replace(api_version=0))

    def _unexpected(self, entry: ApiEntry, request: Request[Any], header: RequestHeader, error: Exception) -> Response:
        if isinstance(error, CloseConnectionError):
            raise error
        log.error(
            "Unexpected error in %s request of client_id=%s; failing the request",
            entry.name,
            header.client_id,
            exc_info=error,
        )
        return failure(entry, request, header.api_version, errors.KafkaError(f"{type(error).__name__}: {error}"))


def _finish(
    answer: Response | None, header: RequestHeader, stats: ApiStats, meter: RequestQuotaTracker | None
) -> Reply | Awaitable[Reply]:
    """Encode a response. If it has many items, other requests are processed in between."""
    if answer is None:
        if meter is not None:
            meter.finish(None, None)
        return None
    if header.api_key in INNER and _is_short(answer, INNER[header.api_key]):
        stats.count_errors(answer)
        return _metered(framed(answer, header), answer, header, stats, meter)
    out = _head(header)
    steps = encode_chunks_in_slices(answer, header.api_version, out)
    try:
        next(steps)
    except StopIteration as done:
        stats.count_errors(answer)
        return _metered(sealed(out, done.value), answer, header, stats, meter)
    return _encode(steps, out, answer, header, stats, meter)


def _is_short(answer: Any, inner: str) -> bool:
    """Return whether a response to Produce or Fetch has few partitions, which is usual.

    It is encoded directly then, which is faster.
    """
    if len(answer.responses) > SHORT_ITEMS:
        return False
    for topic in answer.responses:  # noqa: SIM110 - faster than a generator
        if len(getattr(topic, inner)) > SHORT_ITEMS:
            return False
    return True


async def _encode(
    steps: Generator[None, None, list[Chunk]],
    out: bytearray,
    answer: Response,
    header: RequestHeader,
    stats: ApiStats,
    meter: RequestQuotaTracker | None,
) -> Reply:
    await stats.count_errors_in_slices(answer)
    return _metered(sealed(out, await in_slices(steps)), answer, header, stats, meter)


def _metered(
    reply: Reply, answer: Any, header: RequestHeader, stats: ApiStats, meter: RequestQuotaTracker | None
) -> Reply:
    if meter is None:
        return reply
    if meter.finish(answer, reply):
        reply = framed(answer, header)  # encode it again, now with the throttle time
    if throttle_ms := getattr(answer, "throttle_time_ms", 0):  # also one that a handler has set: KIP-599
        stats.throttle.record(throttle_ms / 1000)
    return reply


async def in_slices(steps: Generator[None, None, T]) -> T:
    """Run a generator that yields between slices of work, letting other tasks run in between. Return its result."""
    try:
        while True:
            await asyncio.sleep(0)
            next(steps)
    except StopIteration as done:
        result: T = done.value
        return result


def rejecting(error: errors.KafkaError) -> Handler:
    """Return a handler that rejects every request with this error."""

    def reject(request: Request[Any], context: RequestContext) -> Response:
        raise error

    return reject


def failure(entry: ApiEntry, request: Request[Any], version: int, error: errors.KafkaError) -> Response:
    """Return the response to a request that failed.

    Raises CloseConnectionError if no response is expected (Produce with acks=0), or if it has no place for an error.
    """
    from ottla.broker.error_responses import error_response

    if getattr(request, "acks", None) == 0:
        raise CloseConnectionError(f"{entry.name} failed: {error}")
    return error_response(entry.name, entry.api.response, request, version, error)


def framed(answer: Response | None, header: RequestHeader) -> Reply:
    """Return a response with length and header as chunks to send; None if there is no response."""
    if answer is None:
        return None
    out = _head(header)
    return sealed(out, encode_chunks(answer, header.api_version, out))


def _head(header: RequestHeader) -> bytearray:
    out = bytearray(LENGTH_PLACE)
    encode_response_header(out, header.api_key, header.api_version, header.correlation_id)
    return out


def sealed(out: bytearray, chunks: list[Chunk]) -> Reply:
    """Write the length of a response into its first bytes, and return its chunks."""
    size = -4
    for chunk in chunks:
        size += len(chunk) if isinstance(chunk, (bytes, bytearray)) else chunk.nbytes
    out[:4] = size.to_bytes(4, "big")
    return cast("Sequence[SentChunk]", chunks)  # each chunk is a buffer or a slice of a log file

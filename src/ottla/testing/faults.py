"""Faults of a broker, for tests of programs that use Kafka: requests that are, for example, delayed, lost or rejected.

    ottla_faults.on("Produce", topic="orders").lose_response()
    ottla_faults.on("OffsetCommit", group="billing", nth=2).fail("REBALANCE_IN_PROGRESS")

The faults are in the broker, so they apply to every client: Ottla's, confluent-kafka, kafka-python, Java.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from ottla.broker.apis import SUPPORTED_APIS, ApiEntry, Handler
from ottla.broker.embedded import Broker
from ottla.broker.request_context import RequestContext
from ottla.cluster.interbroker.membership_proof import MEMBER
from ottla.config.options import nearest
from ottla.errors import BY_CODE, ConfigurationError, IllegalStateError, KafkaError
from ottla.logs import reason_of
from ottla.protocol.message import Request, Response
from ottla.testing import fault_steps, request_resources
from ottla.testing.fault_steps import FaultyRequest, Gate, Outcome, Step

API_NAMES = frozenset(entry.name for entry in SUPPORTED_APIS)
ERRORS = {error.name: error for error in BY_CODE.values()}
WAIT_SECONDS = 10.0
SHOWN_REQUESTS = 10_000
"""Number of the most recent requests that are counted in error messages."""


class Fault:
    """One fault: which requests it applies to, and what happens to them. The methods that add a step or an outcome
    return the fault, so that calls can be chained: `.delay(0.5).fail("NOT_COORDINATOR")`.

    Without an outcome (`fail`, `drop`, `disconnect`, `lose_response`, `throttle`), the request is handled after the
    steps. Adding a step or another outcome after an outcome raises ConfigurationError.
    """

    def __init__(
        self,
        faults: Faults,
        apis: tuple[str, ...],
        filters: dict[str, Any],
        nth: int,
        times: int | None,
        *,
        required: bool,
    ) -> None:
        self.required = required
        self._faults = faults
        self._apis = apis
        self._filters = filters
        self._nth = nth
        self._last = None if times is None else nth + times - 1
        self._matched = 0
        self._gate = Gate()
        self._steps: tuple[Step, ...] = ()
        self._outcome: Outcome | None = None
        self._hit = threading.Event()
        self._described = ""
        self.hits: int = 0
        """The number of requests that the fault has been applied to."""

    def __repr__(self) -> str:
        arguments = [*map(repr, self._apis), *(f"{name}={value!r}" for name, value in self._filters.items())]
        arguments += [f"nth={self._nth}"] if self._nth > 1 else []
        return f"on({', '.join(arguments)}){self._described}"

    # Outcomes

    def fail(self, error: str | type[KafkaError] | KafkaError) -> Self:
        """Respond with an error instead of handling the request. The response has the error for all partitions. Only
        Metadata requests are handled, and get the error in all parts of their response.

        `error`: Kafka's name, such as `"NOT_LEADER_OR_FOLLOWER"`, or a class or instance of `ottla.errors`. Raises
        ConfigurationError for an unknown name, and for an error without a code.
        """
        with self._defining():
            made = _error(error)
        return self._ends(f".fail({made.name!r})", fault_steps.fail(made))

    def drop(self) -> Self:
        """Neither handle the request nor respond. The connection stays open until the client closes it or `release` is
        called.

        A broker handles the requests of a connection in order, so later ones get no response either.
        """
        return self._ends(".drop()", fault_steps.drop(self._gate))

    def disconnect(self) -> Self:
        """Close the connection instead of handling the request."""
        return self._ends(".disconnect()", fault_steps.disconnect)

    def lose_response(self) -> Self:
        """Handle the request, and close the connection instead of responding. Clients usually retry such a request."""
        return self._ends(".lose_response()", fault_steps.lose_response)

    def throttle(self, seconds: float) -> Self:
        """Handle the request, respond with a throttle time of `seconds` (if the response has this field), and do not
        read from the connection for that time.
        """
        with self._defining():
            step = fault_steps.throttle(_positive("throttle", seconds))
        return self._ends(f".throttle({seconds:g})", step)

    # Steps before the outcome

    def delay(self, seconds: float) -> Self:
        """Wait for `seconds`, or until `release` is called, before the request is handled. It is handled even if the
        client has given up meanwhile.
        """
        with self._defining():
            step = fault_steps.delay(_positive("delay", seconds), self._gate)
        return self._then(f".delay({seconds:g})", step)

    def hold(self) -> Self:
        """Wait for `release` before the request is handled."""
        return self._then(".hold()", fault_steps.hold(self._gate))

    def call(self, function: Callable[[], object]) -> Self:
        """Call a function of the test, in a separate thread, where it may block, and wait for its end before the
        request is handled.
        """
        return self._then(".call(…)", fault_steps.call(function))

    def move_leader(self, to: int | None = None) -> Self:
        """Move the leader of the request's first partition to the broker `to` (None: another in-sync replica) before
        the request is handled. The old leader then rejects requests that only the leader handles. Needs several brokers
        (`ottla_cluster`).
        """
        with self._defining():
            self._faults.require_cluster("move_leader")
        return self._then(".move_leader()", fault_steps.move_partition(to))

    def move_coordinator(self, to: int | None = None) -> Self:
        """Move the coordinator of the request's transactional id or group to the broker `to` (None: another in-sync
        replica) before the request is handled. The old coordinator then rejects requests that only the coordinator
        handles. Needs several brokers (`ottla_cluster`).
        """
        with self._defining():
            self._faults.require_cluster("move_coordinator")
        return self._then(".move_coordinator()", fault_steps.move_coordinator(to))

    def fence_producer(self) -> Self:
        """Fence the transactional producer that sends the request before it is handled, as a new producer with the same
        transactional id does. The open transaction of the fenced producer is aborted.
        """
        return self._then(".fence_producer()", fault_steps.fence_producer)

    def expire_member(self) -> Self:
        """Remove the member that sends the request from its group before it is handled, as after its session timeout.
        The other members get its partitions.
        """
        return self._then(".expire_member()", fault_steps.expire_member)

    # The test's side

    def wait(self, timeout: float = WAIT_SECONDS) -> Self:
        """Wait until the fault is applied to a request, and return the fault; return at once if it was applied before.
        With asyncio: `await asyncio.to_thread(fault.wait)`. Raises TimeoutError after `timeout` seconds.
        """
        if not self._hit.wait(timeout):
            raise TimeoutError(f"ottla_faults: {self!r} matched no request within {timeout:g} s; {self._faults.seen()}")
        return self

    def release(self) -> None:
        """Let the requests that wait because of `hold` or `delay` continue, and close the connections of those that
        wait because of `drop`. Later requests do not wait.
        """
        self._gate.open()

    def remove(self) -> None:
        """Stop applying the fault, and `release` the requests that wait because of it."""
        self._faults.remove(self)
        self.release()

    def takes(self, entry: ApiEntry, request: Request[Any], context: RequestContext) -> bool:
        """Count a request that matches the filters, and return whether the fault applies to it, according to `nth` and
        `times`. A fault without steps and outcome applies to none. Event loop only.
        """
        if not (self._steps or self._outcome) or not self._matches(entry, request, context):
            return False
        self._matched += 1
        return self._nth <= self._matched and (self._last is None or self._matched <= self._last)

    async def apply(self, faulty: FaultyRequest) -> Response | None:
        """Carry out the steps and the outcome, and return the response. If a step fails, the error is reported for
        `Faults.check`, and the outcome follows.
        """
        self.hits += 1
        self._hit.set()
        try:
            for step in self._steps:
                await step(faulty)
        except Exception as error:
            self._faults.report(self, error)
        return await (self._outcome or fault_steps.handle)(faulty)

    def _matches(self, entry: ApiEntry, request: Request[Any], context: RequestContext) -> bool:
        if self._apis and entry.name not in self._apis:
            return False
        filters = self._filters
        if "client_id" in filters and context.client_id != filters["client_id"]:
            return False
        if "broker" in filters and context.broker.broker_id != filters["broker"]:
            return False
        if "group" in filters and filters["group"] not in request_resources.groups(request):
            return False
        if "transactional_id" in filters and filters["transactional_id"] not in request_resources.transactional_ids(
            request
        ):
            return False
        if "topic" not in filters:
            return True
        named = filters["topic"], filters.get("partition")
        return named in request_resources.partitions(request, context)

    @contextmanager
    def _defining(self) -> Iterator[None]:
        """Context manager: after an invalid definition, `Faults.check` does not report that the fault matched no
        request, which would be a second error.
        """
        try:
            yield
        except ConfigurationError:
            self.required = False
            raise

    def _then(self, described: str, step: Step) -> Self:
        with self._defining():
            if self._outcome is not None:
                raise ConfigurationError(f"ottla_faults: {described[1:]} comes before the outcome of {self!r}")
        self._described += described
        self._steps += (step,)
        return self

    def _ends(self, described: str, outcome: Outcome) -> Self:
        with self._defining():
            if self._outcome is not None:
                raise ConfigurationError(f"ottla_faults: {self!r} has an outcome already; define another fault")
        self._described += described
        self._outcome = outcome
        return self


class Faults:
    """The faults of one test. At the end of the test, the fixture `ottla_faults` removes them, and checks that all that
    are not optional were applied.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._faults: tuple[Fault, ...] = ()
        self._failures: list[str] = []
        self._seen: deque[str] = deque(maxlen=SHOWN_REQUESTS)
        self._defined: list[Fault] = []

    def on(
        self,
        *apis: str,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        broker: int | None = None,
        nth: int = 1,
        times: int | None = 1,
        optional: bool = False,
    ) -> Fault:
        """Define a fault for requests of clients, not of other brokers. If several faults apply to a request, the first
        one that was defined is used.

        Args:
            apis: Kafka's names, such as `"Produce"`; without any, the fault applies to all APIs.
            client_id: the client id of the request.
            topic: a topic that the request names, by name or id, or that is in the fetch session of a Fetch request.
            partition: a partition of `topic`.
            group: a group that the request names.
            transactional_id: a transactional id that the request names.
            broker: the id of the broker that receives the request.
            nth: the first of the matching requests that the fault applies to, counted from 1.
            times: the number of matching requests that it applies to; None: the nth one and all that follow.
            optional: whether the test may end although the fault was applied to no request.

        Raises ConfigurationError for an unknown API, a value that is not allowed, or a partition without a topic.
        """
        for api in apis:
            if api not in API_NAMES:
                raise ConfigurationError(f"ottla_faults: {api!r} is not an API{nearest(api, API_NAMES)}")
        if partition is not None and topic is None:
            raise ConfigurationError(f"ottla_faults: partition={partition} needs topic=")
        for name, value in (("nth", nth), ("times", times)):
            if value is not None and value < 1:
                raise ConfigurationError(f"ottla_faults: {name}={value} is not allowed: expected at least 1")
        filters = {
            "client_id": client_id,
            "topic": topic,
            "partition": partition,
            "group": group,
            "transactional_id": transactional_id,
            "broker": broker,
        }
        used = {name: value for name, value in filters.items() if value is not None}
        fault = Fault(self, apis, used, nth, times, required=not optional)
        if not self._faults:
            self._broker.intercept(self._intercept)
        self._faults += (fault,)
        self._defined.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """Stop applying a fault to further requests. Requests that wait because of it continue to wait."""
        self._faults = tuple(other for other in self._faults if other is not fault)

    def clear(self) -> None:
        """Remove all faults, and release the requests that wait because of them."""
        for fault in self._faults:
            fault.remove()
        self._broker.intercept(None)

    def check(self) -> None:
        """Raise IllegalStateError if a fault that is not optional was applied to no request, or if a fault could not be
        applied.
        """
        missing = [repr(fault) for fault in self._defined if fault.required and not fault.hits]
        problems = self._failures + [f"{fault} matched no request (optional=True allows that)" for fault in missing]
        if problems:
            raise IllegalStateError(f"ottla_faults: {'; '.join(problems)}; {self.seen()}")

    def seen(self) -> str:
        """Return the numbers of client requests by API, of up to SHOWN_REQUESTS requests since the first fault was
        defined, as text for error messages.
        """
        counts = Counter(self._seen).most_common()
        return f"requests: {', '.join(f'{count} {name}' for name, count in counts) or 'none'}"

    def report(self, fault: Fault, error: Exception) -> None:
        """Record that a fault could not be applied, for `check`."""
        self._failures.append(f"{fault!r} failed: {reason_of(error)}")

    def require_cluster(self, step: str) -> None:
        """Raise ConfigurationError if fewer than two brokers are running."""
        if len(self._broker.nodes) < 2:
            raise ConfigurationError(
                f"ottla_faults: {step} needs several brokers; have the test use the fixture ottla_cluster"
            )

    def _intercept(
        self, entry: ApiEntry, handler: Handler, request: Request[Any], context: RequestContext
    ) -> Response | Awaitable[Response | None] | None:
        if MEMBER in context.connection.state:
            return handler(request, context)  # of another broker
        self._seen.append(entry.name)
        for fault in self._faults:
            if fault.takes(entry, request, context):
                return fault.apply(FaultyRequest(self._broker, entry, handler, request, context))
        return handler(request, context)


def _error(error: str | type[KafkaError] | KafkaError) -> KafkaError:
    if isinstance(error, str):
        if error not in ERRORS:
            raise ConfigurationError(f"ottla_faults: {error!r} is not an error of Kafka{nearest(error, ERRORS)}")
        return ERRORS[error]()
    made = error if isinstance(error, KafkaError) else error()
    if made.code is None:
        raise ConfigurationError(f"ottla_faults: {type(made).__name__} has no code: brokers do not respond with it")
    return made


def _positive(name: str, seconds: float) -> float:
    if seconds < 0:
        raise ConfigurationError(f"ottla_faults: {name}({seconds:g}) is not allowed: expected at least 0 seconds")
    return seconds

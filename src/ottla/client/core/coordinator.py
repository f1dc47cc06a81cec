"""The coordinator of a group or of a transactional id: lookup when it is needed, and again after it has moved."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from ottla import errors
from ottla.backoff import ExponentialBackoff
from ottla.client.core.connections import GROUP, SLOW_SECONDS, Connections
from ottla.client.core.metadata import Metadata
from ottla.model import ACLOperation
from ottla.protocol.message import Request, Response
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.security.acl import ResourceType, allowing_command, with_name

log = logging.getLogger("ottla.client")

R = TypeVar("R", bound=Response)

MOVED: Final = (
    errors.NotCoordinatorError,
    errors.CoordinatorNotAvailableError,
    errors.CoordinatorLoadInProgressError,
)
"""Errors after which the coordinator is looked up again."""


GROUP_KEY: Final = 0
TRANSACTION: Final = 1
"""GROUP_KEY and TRANSACTION are the key types of FindCoordinator."""


def group_error(code: int, group_id: str, message: str | None = None) -> errors.KafkaError:
    """Return the exception for an error code. The message of a GroupAuthorizationFailedError contains the group,
    which the broker's message does not.
    """
    error = errors.for_code(code)
    if issubclass(error, errors.GroupAuthorizationFailedError):
        command = allowing_command("User:NAME", ACLOperation.READ, ResourceType.GROUP, group_id)
        text = with_name(message, group_id) if message else f"{error.__doc__} To allow it: {command}"
        return error(f"group {group_id!r}: {text}")
    return error(message)


class Coordinator:
    """Sends requests to the coordinator of a group or transactional id. Not thread-safe: event loop only."""

    def __init__(
        self,
        group_id: str | None,
        connections: Connections,
        metadata: Metadata,
        retry_backoff: float,
        kind: int = GROUP_KEY,
        retry_backoff_max: float | None = None,
    ) -> None:
        self.group_id = group_id or ""
        """The group id or the transactional id; empty if there is none."""
        self.kind = kind
        self.connections = connections
        self.metadata = metadata
        self.node: int | None = None
        """The node id of the coordinator; None if it has to be looked up."""
        self.retry_backoff = retry_backoff
        """The delay in seconds before the first retry."""
        self._failure: errors.KafkaError | None = None  # of the last attempt to find the coordinator
        self._failing_since: float | None = None
        self._has_warned = False
        self._backoff = ExponentialBackoff(
            retry_backoff, max(retry_backoff, retry_backoff if retry_backoff_max is None else retry_backoff_max)
        )

    async def find(self, deadline: float) -> int:
        """Return the node id of the coordinator; look it up if necessary, with retries until `deadline`, a monotonic
        time in seconds.

        Raises KafkaTimeoutError after the deadline, and InvalidGroupIdError if there is no group id. Other errors that
        are not retriable are raised at once.
        """
        if not self.group_id:
            raise errors.InvalidGroupIdError("this requires a group.id")
        tries = 0
        while self.node is None:
            try:
                request = self._find_request
                response = await self.connections.send_any_of(FindCoordinatorRequest, request)
                coordinator = response.coordinators[0] if response.coordinators else response
                if coordinator.error_code:
                    raise group_error(coordinator.error_code, self.group_id, coordinator.error_message)
                if coordinator.node_id not in self.metadata.cluster.nodes:
                    await self.metadata.refresh(max(0.0, deadline - time.monotonic()))
                self.node = coordinator.node_id
                self._found()
            except errors.KafkaError as error:
                self._failure = error
                if not error.retriable:
                    raise
                self._warn(error)
                await self.back_off(deadline, f"no coordinator of {self._subject}", error, tries)
                tries += 1
        return self.node

    def _warn(self, error: errors.KafkaError) -> None:
        """Log once that there has been no coordinator for some time, unless a warning about connections says why."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if self._has_warned or now - self._failing_since < SLOW_SECONDS or self.connections.is_failing:
            return
        self._has_warned = True
        log.warning(
            "Cannot find the coordinator of %s; calls that need it are retried until they time out: %s",
            self._subject,
            error,
        )

    def _found(self) -> None:
        if self._has_warned and self._failing_since is not None:
            log.info("Found the coordinator of %s after %.1f s", self._subject, time.monotonic() - self._failing_since)
        self._failure, self._failing_since, self._has_warned = None, None, False

    @property
    def _subject(self) -> str:
        return f"{'group' if self.kind == GROUP_KEY else 'transactional id'} {self.group_id}"

    @property
    def last_failure(self) -> str:
        """The likely reason of a timeout, in brackets: why the last lookup failed, or why a connection attempt is slow;
        empty if neither is known.
        """
        reason = str(self._failure) if self.node is None and self._failure else self.connections.slow_reason
        return f" ({reason})" if reason else ""

    def _find_request(self, version: int) -> FindCoordinatorRequest:
        if version >= 4:
            return FindCoordinatorRequest(key_type=self.kind, coordinator_keys=[self.group_id])
        return FindCoordinatorRequest(key_type=self.kind, key=self.group_id)

    async def back_off(self, deadline: float, failure: str, reason: errors.KafkaError | None, tries: int = 0) -> None:
        """Wait before the next attempt. The delay grows with `tries`, the number of failed attempts before the
        last one (KIP-580).

        After the deadline, raise KafkaTimeoutError with `failure` and `reason` as its message.
        """
        left = deadline - time.monotonic()
        if left <= 0:
            raise errors.KafkaTimeoutError(failure + (f" ({reason})" if reason else "")) from reason
        await asyncio.sleep(min(self._backoff.backoff(tries), left))

    async def send(
        self,
        request: Request[R] | Callable[[int], Request[R]],
        deadline: float,
        *,
        of: type[Request[R]] | None = None,
        at_most: int | None = None,
        timeout: float | None = None,
    ) -> R:
        """Send a request to the coordinator, and return the response. Error codes in the response are not checked.

        Raises KafkaTimeoutError at the deadline, and errors of `find` and of `Connections.send`. After a retriable
        error of the latter, the next call looks up the coordinator again.
        """
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                return await self._send(await self.find(deadline), request, of, at_most, timeout)
        except errors.KafkaError:
            raise
        except TimeoutError:
            raise errors.KafkaTimeoutError(
                f"the coordinator of {self.group_id} did not respond in time{self.last_failure}"
            ) from None

    async def _send(
        self,
        node: int,
        request: Request[R] | Callable[[int], Request[R]],
        of: type[Request[R]] | None,
        at_most: int | None,
        timeout: float | None,
    ) -> R:
        try:
            return await self.connections.send(node, request, of=of, at_most=at_most, timeout=timeout, purpose=GROUP)
        except errors.KafkaError as error:
            if error.retriable:
                self.node = None
            raise

    def disconnect(self) -> None:
        """Close the connection to the coordinator, so that a pending request there does not delay the next one."""
        if self.node is not None:
            self.connections.disconnect(self.node, GROUP)

    def handle_error(self, error: type[errors.KafkaError]) -> None:
        """If `error` is in MOVED, let the next request look up the coordinator."""
        if issubclass(error, MOVED):
            self.node = None

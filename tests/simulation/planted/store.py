"""Bugs of the embedded metadata store."""

from __future__ import annotations

from typing import Any

from tests.simulation.planted.patching import needs, patch

from ottla import futures
from ottla.cluster.store.sqlite_store import SqliteMetadataStore
from ottla.simulation.world import SQLITE


@needs("session-expiry", "cut-from-zookeeper", "lost-responses", store=SQLITE)
def lost_sessions_are_replaced_at_the_first_attempt_or_never() -> None:
    """A process that could not replace its session, because the file was locked, does not retry."""
    renew, attempted = SqliteMetadataStore._renew, set[int]()

    async def renew_once(self: Any, ended: Any) -> None:
        if ended is not None and id(ended) not in attempted:
            attempted.add(id(ended))
            await renew(self, ended)

    patch(SqliteMetadataStore, "_renew", renew_once)


@needs("session-expiry", store=SQLITE)
def each_session_has_heartbeats() -> None:
    """The heartbeats of an ended session continue beside those of the next one."""
    begin_session = SqliteMetadataStore._begin_session

    async def begin_and_beat(self: Any) -> None:
        await begin_session(self)
        self._beat()

    patch(SqliteMetadataStore, "_begin_session", begin_and_beat)


@needs("session-expiry", "lost-responses", store=SQLITE)
def errors_of_cancelled_changes_are_not_retrieved() -> None:
    """asyncio reports the error of a change whose caller was cancelled."""
    patch(futures, "_retrieve_error", lambda future: None)


@needs("kill", store=SQLITE)
def sessions_of_dead_processes_stay() -> None:
    """No process ends the sessions of dead processes."""

    async def end_session(self: Any, number: int) -> None:
        pass

    patch(SqliteMetadataStore, "_end_session", end_session)


BUGS = (
    lost_sessions_are_replaced_at_the_first_attempt_or_never,
    each_session_has_heartbeats,
    errors_of_cancelled_changes_are_not_retrieved,
    sessions_of_dead_processes_stay,
)

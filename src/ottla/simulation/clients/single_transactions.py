"""Transactions that each have a separate transactional id, so that their producers do not continue.

A producer that continues completes its previous transaction when it begins the next one. Here only the coordinator can
do so: it has to write the markers of decided transactions despite failures, and to abort the transactions of producers
that have disappeared.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ottla import errors
from ottla.simulation.clients.raw_client import ProducerId, RawClient, batch_of, raise_for
from ottla.simulation.history import TRANSFERS, Attempt, History, Outcome, TransferRecord
from ottla.simulation.workloads import PARTITIONS, RETRY_SECONDS, Workload
from ottla.simulation.world import World

PAUSE_SECONDS: Final = 5.0
ATTEMPTS: Final = 10
"""Maximum number of attempts to end a transaction."""
ENDS: Final = (True, True, False, None)
"""The ends of a transaction, of which one is chosen at random: True to commit (half of them), False to abort, None to
leave it open.
"""


class SingleTransactions(Workload):
    """Runs transactions, each of which writes one record to each partition of TRANSFERS."""

    def __init__(self, world: World, bootstrap_servers: str, history: History) -> None:
        super().__init__(world, "single", bootstrap_servers, history)
        self._client = RawClient(self.name, bootstrap_servers)

    async def run(self) -> None:
        number = 0
        while not self.is_stopping:
            number += 1
            attempt = Attempt(self.name, number, (number,), Outcome.ABORTED, self.now())
            self.history.attempts.append(attempt)
            try:
                await self._transaction(attempt)
            except errors.KafkaError as error:
                self.world.note(self.name, f"leaves transaction {number}: {error!r}")
            await self.rest(PAUSE_SECONDS)
        self._client.close()

    async def _transaction(self, attempt: Attempt) -> None:
        name = f"{self.name}-{attempt.number}"
        producer = await self._client.init_producer(name)
        raise_for(await self._client.add_partitions(name, producer, TRANSFERS, range(PARTITIONS)))
        for partition in range(PARTITIONS):
            await self._write(name, producer, TransferRecord(self.name, attempt.number, attempt.number, partition))
        commit = self.rng.choice(ENDS)
        if commit is not None:
            await self._end(name, producer, attempt, commit=commit)

    async def _write(self, name: str, producer: ProducerId, half: TransferRecord) -> None:
        now_ms = 1_800_000_000_000 + int(self.now() * 1000)
        batch = batch_of([half.value], producer, 0, now_ms, transactional=True)
        leader = await self._client.leader(TRANSFERS, half.side)
        raise_for((await self._client.produce(leader.broker, TRANSFERS, half.side, batch, name)).error_code)

    async def _end(self, name: str, producer: ProducerId, attempt: Attempt, *, commit: bool) -> None:
        """Commit or abort a transaction, with up to ATTEMPTS attempts, and store the outcome in `attempt`."""
        for _ in range(ATTEMPTS):
            attempt.outcome = Outcome.UNKNOWN if commit else Outcome.ABORTED
            try:
                raise_for(await self._client.end_transaction(name, producer, commit=commit))
            except errors.KafkaError as error:
                if not error.retriable:
                    raise
                await asyncio.sleep(RETRY_SECONDS)
                continue
            attempt.outcome = Outcome.COMMITTED if commit else Outcome.ABORTED
            return

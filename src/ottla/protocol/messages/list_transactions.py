"""ListTransactions (key 66): the transactional ids that a broker coordinates (KIP-664).

- version 1 can select transactions that run longer than a time (KIP-994); 2 ids that match a pattern (KIP-1152)
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class ListTransactionsRequest(Request["ListTransactionsResponse"], api_key=66, versions="0-2", flexible="0+"):
    """Filters for the transactions to list; an empty list does not filter."""

    state_filters: list[str] = f.array(f.string(), "0+")
    producer_id_filters: list[int] = f.array(f.int64(), "0+")
    # Only transactions that have been open for longer than these milliseconds; -1: any.
    duration_filter: int = f.int64("1+", default=-1)
    # A regular expression for the whole id; None or empty: any.
    transactional_id_pattern: str | None = f.string("2+", nullable="2+", default=None)


class TransactionState(Struct):
    """One transactional id, with its producer id and the state of its transaction."""

    transactional_id: str = f.string("0+")
    producer_id: int = f.int64("0+")
    transaction_state: str = f.string("0+")


class ListTransactionsResponse(Response, api_key=66, versions="0-2", flexible="0+"):
    """The transactional ids, and the requested states that do not exist."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    unknown_state_filters: list[str] = f.array(f.string(), "0+")
    transaction_states: list[TransactionState] = f.array(TransactionState, "0+")

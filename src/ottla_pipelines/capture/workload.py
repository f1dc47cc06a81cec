"""The changes of a small shop: random transactions over three tables, for the demo and for tests.

The sum of all balances never changes: a reader that sees only one side of a transfer sees another sum.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import psycopg

TABLES: Final = ("accounts", "orders", "carts")
ACCOUNTS: Final = 1000
ORDERS: Final = 4000
BALANCE: Final = Decimal("1000.00")
TOTAL: Final = ACCOUNTS * BALANCE
SCHEMA: Final = """
    create table accounts (
        id int primary key, owner text not null, balance numeric(12,2) not null, vip boolean, changed timestamptz
    );
    create table orders (
        id bigint primary key, account int, amount numeric(10,2), weight double precision, day date,
        placed timestamp not null, state text, details text
    );
    create table carts (session text, item int, amount smallint, primary key (session, item));
"""
FILL_ACCOUNTS: Final = (
    "insert into accounts select n, 'owner ' || n, %s, n %% 7 = 0, now() from generate_series(1, %s) n"
)
FILL_ORDERS: Final = """
    insert into orders select n, n %% 1000, n * 0.11, n / 7.0, date '2026-01-01' + n %% 300, now(), 'new', null
    from generate_series(1, %s) n
"""
ORDER: Final = "insert into orders values (%s, %s, %s, %s, current_date, now(), 'new', %s)"
LARGE: Final = 5000
"""Number of characters of large texts, which the WAL leaves out of updates that do not change them."""


class Workload:
    """Changes the tables by random transactions."""

    def __init__(self, connection: psycopg.Connection[Any], seed: int) -> None:
        self._connection = connection
        self._choice = random.Random(seed)
        self._next_id = 1_000_000
        self.transactions: Counter[str] = Counter()
        """The number of committed transactions by kind."""
        self._kinds: dict[str, tuple[int, Callable[[], None]]] = {
            "transfers": (8, self._transfer),
            "orders": (6, self._order),
            "new states": (6, self._change_order),
            "deleted orders": (2, self._delete_order),
            "new accounts": (2, self._open_account),
            "closed accounts": (1, self._close_account),
            "changed keys": (1, self._change_key),
            "cart items": (4, self._add_to_cart),
        }

    def create(self) -> None:
        """Create the tables, and fill them."""
        with self._connection.transaction():
            self._connection.execute(SCHEMA)
            self._connection.execute(FILL_ACCOUNTS, [BALANCE, ACCOUNTS])
            self._connection.execute(FILL_ORDERS, [ORDERS])

    def step(self) -> None:
        """Run a transaction. About one in twenty is rolled back, and about one in two hundred empties the carts."""
        (kind,) = self._choice.choices(list(self._kinds), [weight for weight, _ in self._kinds.values()])
        is_aborted = self._choice.random() < 0.05
        with self._connection.transaction(force_rollback=is_aborted):
            self._kinds[kind][1]()
            if self._choice.random() < 0.005:
                self._connection.execute("truncate carts")
                self._add_to_cart()
                kind = "emptied carts"
        if not is_aborted:
            self.transactions[kind] += 1

    def _account(self) -> int:
        return self._choice.randint(1, ACCOUNTS)

    def _transfer(self) -> None:
        amount = Decimal(self._choice.randint(1, 5000)) / 100
        for account, change in ((self._account(), -amount), (self._account(), amount)):
            self._connection.execute(
                "update accounts set balance = balance + %s, changed = now() where id = %s", [change, account]
            )

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _order(self) -> None:
        for _ in range(self._choice.randint(1, 5)):
            details = "".join(self._choices(LARGE)) if self._choice.random() < 0.1 else None
            amount = Decimal(self._choice.randint(1, 100_000)) / 100
            values = [self._new_id(), self._account(), amount, self._choice.random(), details]
            self._connection.execute(ORDER, values)

    def _choices(self, count: int) -> list[str]:
        return self._choice.choices("abcdefghijklmnopqrstuvwxyz", k=count)

    def _old_order(self) -> int:
        return self._choice.choice((self._choice.randint(1, ORDERS), self._choice.randint(1_000_000, self._next_id)))

    def _change_order(self) -> None:
        state = self._choice.choice(("paid", "sent", None))
        self._connection.execute("update orders set state = %s where id = %s", [state, self._old_order()])

    def _delete_order(self) -> None:
        self._connection.execute("delete from orders where id = %s", [self._old_order()])

    def _open_account(self) -> None:
        self._connection.execute("insert into accounts values (%s, 'new', 0, null, null)", [self._new_id()])

    def _close_account(self) -> None:
        self._connection.execute("delete from accounts where balance = 0 and id % 2 = 0")

    def _change_key(self) -> None:
        self._connection.execute(
            "update accounts set id = %s where id = (select max(id) from accounts where balance = 0)", [self._new_id()]
        )

    def _add_to_cart(self) -> None:
        self._connection.execute(
            "insert into carts values (%s, %s, 1) on conflict (session, item) do update set amount = carts.amount + 1",
            [f"session {self._choice.randint(1, 50)}", self._choice.randint(1, 20)],
        )

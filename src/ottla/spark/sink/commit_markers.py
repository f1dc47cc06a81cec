"""The table `ottla_sink_batches`: for each task of a query, the last micro-batch that it has written to a table."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from ottla.spark.sink.sql_types import exact_text
from ottla.spark.sink.writer import Marker, StaleTask, Task

TABLE_LENGTH: Final = 128
"""Maximum length of dbtable in characters."""

INSERTS: Final[dict[str, Any]] = {
    "mysql": mysql.insert,
    "mariadb": mysql.insert,
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}
"""The INSERT construct of each dialect. SQLAlchemy's generic one has no clause for conflicts."""

METADATA: Final = sa.MetaData()
BATCHES: Final = sa.Table(
    "ottla_sink_batches",
    METADATA,
    sa.Column("query", exact_text(200), primary_key=True),
    # The table is part of the key: a copied checkpoint, or one sinkId for two writes, must not mix up two tables.
    sa.Column("written_table", exact_text(TABLE_LENGTH), primary_key=True),
    sa.Column("task", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("batch_id", sa.BigInteger, nullable=False),
    sa.Column("row_count", sa.BigInteger, nullable=False),
)


def locked_marker(connection: sa.Connection, task: Task, table: str) -> Marker:
    """Return the task's last marker. If there is none, it is created with the micro-batch -1. Its row is locked until
    the end of the transaction.
    """
    nothing = {"query": task.query, "written_table": table, "task": task.partition, "batch_id": -1, "row_count": 0}
    connection.execute(_insert_missing(connection.dialect.name), nothing)
    chosen = sa.select(BATCHES.c.batch_id, BATCHES.c.row_count).where(_line_of(task, table))
    row = connection.execute(chosen.with_for_update()).one()
    return Marker(row.batch_id, row.row_count)


def mark(connection: sa.Connection, task: Task, table: str, rows: int) -> None:
    """Record in the task's marker, which `locked_marker` has locked, that the task has written `rows` rows of its
    micro-batch.
    """
    here = _line_of(task, table)
    connection.execute(sa.update(BATCHES).where(here).values(batch_id=task.batch_id, row_count=rows))


def stale_task(connection: sa.Connection, task: Task, table: str, tasks: set[int]) -> StaleTask | None:
    """Return the tasks other than `tasks` that have written rows of the micro-batch of `task`, and the number of these
    rows; None if there are none.
    """
    is_of_batch = _is_ours(task, table) & (BATCHES.c.batch_id == task.batch_id) & (BATCHES.c.row_count > 0)
    rows = connection.execute(sa.select(BATCHES.c.task, BATCHES.c.row_count).where(is_of_batch))
    left = {row.task: row.row_count for row in rows if row.task not in tasks}
    if not left:
        return None
    deletion = sa.delete(BATCHES).where(_is_ours(task, table) & BATCHES.c.task.in_(sorted(left)))
    text = deletion.compile(connection, compile_kwargs={"literal_binds": True})
    return StaleTask(sum(left.values()), sorted(left), f"run: {' '.join(str(text).split())}")


def _is_ours(task: Task, table: str) -> Any:
    return (BATCHES.c.query == task.query) & (BATCHES.c.written_table == table)


def _line_of(task: Task, table: str) -> Any:
    """Return the condition that selects the row with a task's marker."""
    return _is_ours(task, table) & (BATCHES.c.task == task.partition)


def _insert_missing(dialect: str) -> Any:
    statement = INSERTS[dialect](BATCHES)
    if isinstance(statement, mysql.Insert):
        # Not IGNORE, which would also truncate values that are too long.
        return statement.on_duplicate_key_update(task=BATCHES.c.task)
    return statement.on_conflict_do_nothing()

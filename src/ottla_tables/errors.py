"""Errors of tables: failed reads and writes, conflicting commits, and missing tables."""

from __future__ import annotations

from ottla.errors import KafkaError


class TableError(KafkaError):
    """A table cannot be read or written, or an SQL query of tables failed."""


class CommitConflictError(TableError):
    """Another writer has changed the table since it was loaded, or a new table could not be created."""


class MissingTableError(TableError):
    """A topic has no table yet, or its catalog does not exist, and a reader creates neither."""

"""Commits that are safe if the response is lost: after a conflict, the table is searched for the commit.

An object store or a catalog may carry a commit out and respond with an error, or not at all. If the client of the store
then repeats the request, it gets a conflict with its own commit, whose files must not be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla_tables.errors import CommitConflictError
from ottla_tables.formats.table import Commit, Snapshot, Table

ATTEMPTS: Final = 5


def commit_after(table: Table, commit: Commit, offsets: Mapping[int, int]) -> None:
    """Commit a change if the offsets of the table are still `offsets`. After a conflict, check whether the commit is in
    the table nevertheless. If not, but the offsets are unchanged and the commit removes no file, try again, at most
    `ATTEMPTS` times in all.

    Raises CommitConflictError if the commit is not in the table; its files may be deleted then. After any other error,
    the commit may be in the table.
    """
    for attempt in range(ATTEMPTS):
        try:
            # A compaction or an upsert may have loaded a version of another writer.
            if table.offsets != offsets:
                raise CommitConflictError("another writer has committed these records")
            table.commit(commit)
            return
        except CommitConflictError:
            snapshot = table.load()
            if _has(snapshot, commit):
                return
            # Another program has changed the table, such as a compaction by Spark: the files are still right if the
            # offsets are those that they continue, and no file is replaced.
            if snapshot.offsets != offsets or commit.removed or attempt == ATTEMPTS - 1:
                raise


def _has(snapshot: Snapshot, commit: Commit) -> bool:
    """Return whether a version contains a commit, possibly below commits of other writers. A single file of the commit
    is enough, because a compaction may have replaced the others. A commit without files is recognized by its offsets.
    """
    if not commit.added:
        return snapshot.offsets == commit.offsets
    added = {file.path for file in commit.added}
    return any(file.path in added for file in snapshot.files)

"""The aborted transactions of a segment, in its `.txnindex` file: 34 bytes each, in the order of their markers.

A read_committed consumer receives the aborted transactions with its batches, and skips the batches of these
transactions. The file is created with the first entry, because most segments have none.
"""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from ottla.errors import KafkaStorageError
from ottla.storage.files import LogFile

VERSION = 0
_ENTRY = Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """An aborted transaction: its producer id, its first offset, its marker's offset, and the last stable offset after
    its marker was appended.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def entries_in(content: bytes, source: object) -> list[AbortedTransaction]:
    """Return the entries in the content of an index. An incomplete last entry is ignored.

    Raises KafkaStorageError, which names the `source`, if an entry has a newer version.
    """
    whole = len(content) - len(content) % _ENTRY.size
    entries = list(_ENTRY.iter_unpack(content[:whole]))
    if any(version > VERSION for version, *_ in entries):
        raise KafkaStorageError(f"{source} has an entry of a version above {VERSION}")
    return [AbortedTransaction(*fields) for _, *fields in entries]


class TransactionIndex:
    """The aborted transactions of one segment. Not thread-safe: event loop only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: list[AbortedTransaction] | None = None

    @property
    def entries(self) -> list[AbortedTransaction]:
        """All entries, which are read at the first use.

        An incomplete last entry is ignored. Raises KafkaStorageError for an entry of a newer version; other damage
        is found by `sanity_check`.
        """
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    def _read(self) -> list[AbortedTransaction]:
        try:
            file = LogFile(self.path, writable=False)
        except FileNotFoundError:
            return []
        return entries_in(file.read(0, file.size()), self.path)

    def sanity_check(self, base_offset: int, next_base: int) -> None:
        """Raise KafkaStorageError if the file does not match the segment from `base_offset` to before `next_base`."""
        if self.path.exists() and self.path.stat().st_size % _ENTRY.size:
            raise KafkaStorageError(f"{self.path}: its size is not a multiple of {_ENTRY.size}")
        before = base_offset - 1
        for entry in self.entries:
            if not (before < entry.last_offset < next_base and 0 <= entry.first_offset < entry.last_offset):
                raise KafkaStorageError(f"{self.path} does not match its log")
            before = entry.last_offset

    def append(self, aborted: AbortedTransaction) -> None:
        """Append an entry, whose marker must be after that of the last entry. Create the file if it is missing."""
        entries = self.entries
        assert not entries or entries[-1].last_offset < aborted.last_offset
        with self.path.open("ab") as file:
            os.truncate(file.fileno(), len(entries) * _ENTRY.size)
            file.write(_ENTRY.pack(VERSION, *aborted))
        entries.append(aborted)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries whose marker's offset is `offset` or higher."""
        retained = [e for e in self.entries if e.last_offset < offset]
        if len(retained) != len(self.entries):
            os.truncate(self.path, len(retained) * _ENTRY.size)
            self._entries = retained

    def clear(self) -> None:
        """Remove all entries, and delete the file."""
        self.path.unlink(missing_ok=True)
        self._entries = []

"""Decodes stored batches into columns, for readers of log directories."""

from __future__ import annotations

from ottla.records import legacy_message_set
from ottla.records.batch import MAGIC, read_header
from ottla.records.column_decoder import ColumnDecoder
from ottla.storage.log_reader import StoredBatch


def add_batch(decoder: ColumnDecoder, batch: StoredBatch, start: int, end: int) -> bool:
    """Add the records with start <= offset < end of a batch of any magic to the columns.

    Return False, and add none, if the columns have no room for them. Raises CorruptMessageError for damaged or too
    large records, and UnsupportedCompressionTypeError for an unknown codec.
    """
    data, position, header = batch
    if header.magic == MAGIC:
        return decoder.add_batch(data, position, header, start, end)
    # It is converted as a whole, even if it is compressed and contains many messages, because a batch must not be added
    # in part.
    converted = legacy_message_set.in_place(data[position : position + header.size_in_bytes])
    return decoder.add_batch(converted, 0, read_header(converted), start, end)

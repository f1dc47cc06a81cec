"""Compaction: the choice of a log, the copy of the records to retain, and the replacement of segments."""

"""Compaction: the choice of a log, the copy of its retained records, their installation."""

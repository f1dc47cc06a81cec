"""Sending events to topics: readers of files, and a replay that can be resumed."""

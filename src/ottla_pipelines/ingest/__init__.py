"""Sending events to topics: readers of files, generated visits, and a replay that can be resumed."""

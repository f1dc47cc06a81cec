"""The producer: from `send()` to produce requests."""

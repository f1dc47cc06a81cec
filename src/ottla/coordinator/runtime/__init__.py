"""The runtime of all coordinators: its log, its loading, and results."""

"""Lookup of topics, and reading of their committed records: from log directories on this machine, or from brokers."""

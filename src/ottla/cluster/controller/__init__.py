"""The controller: its election, its decisions, and its requests to the brokers."""

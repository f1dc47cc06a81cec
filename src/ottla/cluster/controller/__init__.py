"""The controller: its election, what it decides, and what it tells the brokers."""

"""The keyword options of the clients, for type checkers."""

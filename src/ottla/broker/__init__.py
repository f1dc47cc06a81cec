"""The broker: how its parts are connected, the table of its APIs, and their handlers."""

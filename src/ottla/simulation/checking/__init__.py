"""Checkers that work during a run: of what the controller writes, and of the files of logs."""

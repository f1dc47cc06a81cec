"""Checkers that work during a run: they check the controller's writes and the files of logs."""

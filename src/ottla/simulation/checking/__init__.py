"""Checkers that look while a run lasts: at what the controller writes, and at the files of logs."""

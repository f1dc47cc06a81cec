"""The command line: one file per command, the table of all in `main`."""

"""The command line: one module per command. The table of all commands is in `main`."""

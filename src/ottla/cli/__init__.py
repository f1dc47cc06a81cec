"""The command line: one module per command. The table of Ottla's own commands is in `main`."""

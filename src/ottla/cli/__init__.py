"""The command line. Each of Ottla's own commands has a module, which the table in `main` names."""

"""Reading committed records from the log directories of a broker on this machine."""

"""Common parts of the commands, such as options, connections, output and signals."""

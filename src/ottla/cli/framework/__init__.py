"""Common parts of the commands: options, connections, output, signals."""

"""What the commands share: options, connections, output, signals."""

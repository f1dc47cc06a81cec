"""Where Spark runs: its home, Java's AOT cache, Python workers, sockets, archives for clusters."""

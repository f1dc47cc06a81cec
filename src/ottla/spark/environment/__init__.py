"""The environment of Spark: its home, Java's AOT cache, Python workers, sockets, archives for clusters."""

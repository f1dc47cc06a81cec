"""Collection of the data that the console shows: snapshots, rates, and the clients that pages use."""

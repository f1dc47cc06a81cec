"""The cluster as the console sees it: snapshots, samples, and the clients of pages."""

"""SQL over tables and the end of the log that is not in them yet."""

"""The report at the end of long work: one HTML file with its chart inside."""

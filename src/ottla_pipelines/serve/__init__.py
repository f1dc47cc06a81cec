"""Presentation of the results: their comparison with the input, the report, and its output on the terminal."""

"""Presentation of the results: their comparison with the input, the terminal output, the chart and the page."""

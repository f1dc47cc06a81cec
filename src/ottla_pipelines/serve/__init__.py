"""Presentation of the results: the account, the terminal output, the chart and the page."""

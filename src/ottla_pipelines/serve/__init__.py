"""Presentation of the tables: the account, the terminal, the chart and the page."""

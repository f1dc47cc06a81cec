"""Tables to people: the account, the terminal, the chart and the page."""

"""Monitoring of streaming queries: on the terminal, as metrics, as a page. `ottla.spark.watch` starts it."""

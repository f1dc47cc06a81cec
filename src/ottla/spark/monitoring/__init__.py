"""Monitoring of streaming queries: on the terminal, as metrics, as a report. `ottla.spark.monitor` starts it."""

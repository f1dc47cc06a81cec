"""Monitoring of streaming queries: on the terminal, as metrics, as a report, and in files for `ottla console`.
`ottla.spark.monitor` starts it.
"""

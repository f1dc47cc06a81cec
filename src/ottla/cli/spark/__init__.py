"""Commands for jobs on a Spark cluster."""

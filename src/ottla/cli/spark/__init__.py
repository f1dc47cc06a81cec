"""Jobs on a Spark cluster."""

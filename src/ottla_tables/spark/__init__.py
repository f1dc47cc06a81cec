"""Reading tables with Spark's format("ottla")."""

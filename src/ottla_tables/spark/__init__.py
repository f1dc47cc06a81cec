"""Reads of tables with Spark's format("ottla")."""

"""Commands for Spark jobs and sessions."""

"""Change data capture: the changes of PostgreSQL tables as records of topics, which become tables of upserts."""

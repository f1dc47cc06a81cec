"""Topics as tables: a writer of Iceberg, Delta and Parquet tables, and readers for SQL and Spark.

The writer reads the log segments of brokers on the same machine; records that are in remote storage only are read
with a consumer. The offsets are stored in each table's own commits, so a restart neither repeats nor loses records.
"""

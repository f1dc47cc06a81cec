"""Topics as tables: an application that writes the records of topics to Iceberg, Delta and Parquet tables.

It reads the log segments of brokers on the same machine, so it uses no consumer and creates no object per record. The
offsets are stored in the table's own commits, so each record is written exactly once.
"""

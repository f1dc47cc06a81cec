"""SQL queries over tables and over the records that are not in them yet."""

"""Conversion of records to rows of a table, by ottla.table.schema."""

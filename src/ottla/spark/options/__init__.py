"""The options of source and sink, and their validation."""

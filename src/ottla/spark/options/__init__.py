"""Options of source and sink, and their values."""

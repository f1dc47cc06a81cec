"""The pages: a module per subject. A page takes a `Page` and returns a response."""

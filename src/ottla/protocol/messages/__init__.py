"""One file per API: requests and responses in all versions."""

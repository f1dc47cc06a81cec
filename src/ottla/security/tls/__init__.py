"""TLS contexts from `ssl.*` configs, key stores, and names in certificates."""

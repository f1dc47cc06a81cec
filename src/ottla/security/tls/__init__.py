"""TLS contexts of `ssl.*` configs, key stores, and names of certificates."""

"""Security: authentication with TLS and SASL, authorization with ACLs."""

"""Security: authentication with TLS, SASL and delegation tokens, and authorization with ACLs."""

"""SASL: who a client is, by PLAIN or SCRAM."""

"""SASL mechanisms without I/O: PLAIN, SCRAM and OAUTHBEARER."""

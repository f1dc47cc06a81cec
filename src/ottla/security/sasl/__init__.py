"""SASL mechanisms: PLAIN, SCRAM and OAUTHBEARER, and the providers and validators of OAUTHBEARER tokens."""

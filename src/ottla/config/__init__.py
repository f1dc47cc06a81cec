"""The options of brokers, topics, clients and others, with their defaults and bounds: one table per subject."""

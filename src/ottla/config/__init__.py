"""The options of brokers, topics, clients and others, with their defaults and bounds: a class for each subject."""

"""KafkaConsumer: membership, positions, fetching."""

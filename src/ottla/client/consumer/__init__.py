"""KafkaConsumer: group membership, positions, fetching."""

"""KafkaProducer: from `send()` to the wire."""

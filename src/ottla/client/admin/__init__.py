"""KafkaAdminClient: a file per subject."""

"""KafkaAdminClient, with one module per subject (topics, configs, groups, ACLs…)."""

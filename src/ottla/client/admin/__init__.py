"""KafkaAdminClient, with one module or package per subject (topics, configs, groups, ACLs…)."""

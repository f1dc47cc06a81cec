"""Shared by tests, benchmarks and docs: Apache Kafka from Maven Central, and tables generated from the code."""

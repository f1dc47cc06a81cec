"""What tests, benchmarks and docs share: Apache Kafka from Maven, and tables printed from the code."""

"""Pytest fixtures that run brokers in the test process, for tests of programs that use Kafka."""

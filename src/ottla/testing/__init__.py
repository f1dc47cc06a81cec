"""Pytest fixtures that run a broker in the test process, for tests of programs that use Kafka."""

"""Pytest fixtures for tests of programs that use Kafka: brokers in the test process, clients, faults and a clock."""

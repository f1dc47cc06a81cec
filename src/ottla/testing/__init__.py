"""For tests of programs that use Kafka: a broker in the test process, as pytest fixtures."""

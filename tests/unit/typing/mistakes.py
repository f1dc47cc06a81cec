"""Options that do not exist, and one of a wrong type: type checkers report them."""

MISTAKES = """from ottla import KafkaProducer
from ottla.aio import KafkaConsumer

KafkaProducer(linger_ms="a", foo=1)
KafkaConsumer("t", group="g")

from ottla.testing.clients import ProducerFactory
from ottla.testing.faults import Faults

def test(ottla_producer: ProducerFactory, ottla_faults: Faults) -> None:
    ottla_producer(ack="all")
    ottla_faults.on("Produce", offset=3)
"""

"""Exceptions of the 0.8 clients, with the names of Kafka's Scala classes as aliases."""

from __future__ import annotations

from ottla.errors import KafkaError


class FailedToSendMessageError(KafkaError):
    """Messages could not be sent within message.send.max.retries retries, or before the producer was closed."""


class QueueFullError(KafkaError):
    """The queue of an asynchronous producer is full."""


class ProducerClosedError(KafkaError):
    """The producer is closed."""


class NoBrokersForPartitionError(KafkaError):
    """No broker returned the partitions of a topic. It exists as in Kafka 0.8, but is not raised."""


class UnavailableProducerError(KafkaError):
    """There is no connection to the broker with this id."""


class ConsumerTimeoutError(KafkaError):
    """No message arrived within consumer.timeout.ms."""


class ConsumerRebalanceFailedError(KafkaError):
    """All rebalance.max.retries attempts to rebalance failed."""


class MessageSizeTooLargeError(KafkaError):
    """A message is larger than fetch.message.max.bytes."""


class MessageStreamsExistError(KafkaError):
    """The connector has already created its streams, or has failed to create them."""


FailedToSendMessageException = FailedToSendMessageError
QueueFullException = QueueFullError
ProducerClosedException = ProducerClosedError
NoBrokersForPartitionException = NoBrokersForPartitionError
UnavailableProducerException = UnavailableProducerError
ConsumerTimeoutException = ConsumerTimeoutError
ConsumerRebalanceFailedException = ConsumerRebalanceFailedError
MessageSizeTooLargeException = MessageSizeTooLargeError
MessageStreamsExistException = MessageStreamsExistError

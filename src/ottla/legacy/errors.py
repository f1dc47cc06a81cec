"""Errors that only the 0.8 clients raise, with Java's names as aliases."""

from __future__ import annotations

from ottla.errors import KafkaError


class FailedToSendMessageError(KafkaError):
    """Messages could not be sent within message.send.max.retries."""


class QueueFullError(KafkaError):
    """The queue of an asynchronous producer is full of unsent messages."""


class ProducerClosedError(KafkaError):
    """The producer is closed."""


class NoBrokersForPartitionError(KafkaError):
    """No broker returned partitions of the topic."""


class UnavailableProducerError(KafkaError):
    """There is no connection to a broker of this id."""


class ConsumerTimeoutError(KafkaError):
    """No message arrived within consumer.timeout.ms."""


class ConsumerRebalanceFailedError(KafkaError):
    """The partitions could not be claimed within rebalance.max.retries."""


class MessageSizeTooLargeError(KafkaError):
    """A message is larger than fetch.message.max.bytes."""


class MessageStreamsExistError(KafkaError):
    """The streams of a connector were created already."""


FailedToSendMessageException = FailedToSendMessageError
QueueFullException = QueueFullError
ProducerClosedException = ProducerClosedError
NoBrokersForPartitionException = NoBrokersForPartitionError
UnavailableProducerException = UnavailableProducerError
ConsumerTimeoutException = ConsumerTimeoutError
ConsumerRebalanceFailedException = ConsumerRebalanceFailedError
MessageSizeTooLargeException = MessageSizeTooLargeError
MessageStreamsExistException = MessageStreamsExistError

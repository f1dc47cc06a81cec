"""Clients with the API of Kafka 0.8: `Producer`, `SimpleConsumer`, and `Consumer`, whose groups are stored in
ZooKeeper.

They are for programs that were written for that API. New programs should use `ottla.KafkaProducer` and
`ottla.KafkaConsumer`. These clients work with brokers that support the oldest versions of their requests: Ottla, and
Apache Kafka up to 3.9.
"""

from ottla.cluster.store.zk_client import ZkClient as ZkClient
from ottla.legacy.consumer.consumer_config import ConsumerConfig as ConsumerConfig
from ottla.legacy.consumer.consumer_connector import Consumer as Consumer
from ottla.legacy.consumer.consumer_connector import ConsumerConnector as ConsumerConnector
from ottla.legacy.consumer.kafka_stream import ConsumerIterator as ConsumerIterator
from ottla.legacy.consumer.kafka_stream import KafkaStream as KafkaStream
from ottla.legacy.consumer.kafka_stream import MessageAndMetadata as MessageAndMetadata
from ottla.legacy.consumer.simple_consumer import SimpleConsumer as SimpleConsumer
from ottla.legacy.consumer.topic_filter import Blacklist as Blacklist
from ottla.legacy.consumer.topic_filter import TopicFilter as TopicFilter
from ottla.legacy.consumer.topic_filter import Whitelist as Whitelist
from ottla.legacy.decoder import Decoder as Decoder
from ottla.legacy.decoder import DefaultDecoder as DefaultDecoder
from ottla.legacy.decoder import StringDecoder as StringDecoder
from ottla.legacy.encoder import DefaultEncoder as DefaultEncoder
from ottla.legacy.encoder import Encoder as Encoder
from ottla.legacy.encoder import NullEncoder as NullEncoder
from ottla.legacy.encoder import StringEncoder as StringEncoder
from ottla.legacy.errors import ConsumerRebalanceFailedError as ConsumerRebalanceFailedError
from ottla.legacy.errors import ConsumerRebalanceFailedException as ConsumerRebalanceFailedException
from ottla.legacy.errors import ConsumerTimeoutError as ConsumerTimeoutError
from ottla.legacy.errors import ConsumerTimeoutException as ConsumerTimeoutException
from ottla.legacy.errors import FailedToSendMessageError as FailedToSendMessageError
from ottla.legacy.errors import FailedToSendMessageException as FailedToSendMessageException
from ottla.legacy.errors import MessageSizeTooLargeError as MessageSizeTooLargeError
from ottla.legacy.errors import MessageSizeTooLargeException as MessageSizeTooLargeException
from ottla.legacy.errors import MessageStreamsExistError as MessageStreamsExistError
from ottla.legacy.errors import MessageStreamsExistException as MessageStreamsExistException
from ottla.legacy.errors import ProducerClosedError as ProducerClosedError
from ottla.legacy.errors import ProducerClosedException as ProducerClosedException
from ottla.legacy.errors import QueueFullError as QueueFullError
from ottla.legacy.errors import QueueFullException as QueueFullException
from ottla.legacy.keyed_message import KeyedMessage as KeyedMessage
from ottla.legacy.keyed_message import Message as Message
from ottla.legacy.producer.broker_partition_info import BrokerPartitionInfo as BrokerPartitionInfo
from ottla.legacy.producer.client_utils import ClientUtils as ClientUtils
from ottla.legacy.producer.default_event_handler import DefaultEventHandler as DefaultEventHandler
from ottla.legacy.producer.partitioner import ByteArrayPartitioner as ByteArrayPartitioner
from ottla.legacy.producer.partitioner import DefaultPartitioner as DefaultPartitioner
from ottla.legacy.producer.partitioner import Partitioner as Partitioner
from ottla.legacy.producer.producer import Producer as Producer
from ottla.legacy.producer.producer_config import ProducerConfig as ProducerConfig
from ottla.legacy.producer.producer_pool import ProducerPool as ProducerPool
from ottla.legacy.producer.producer_send_thread import ProducerSendThread as ProducerSendThread
from ottla.legacy.producer.sync_producer import SyncProducer as SyncProducer
from ottla.legacy.requests import EARLIEST_TIME as EARLIEST_TIME
from ottla.legacy.requests import LATEST_TIME as LATEST_TIME
from ottla.legacy.requests import ConsumerMetadataRequest as ConsumerMetadataRequest
from ottla.legacy.requests import ErrorMapping as ErrorMapping
from ottla.legacy.requests import FetchRequest as FetchRequest
from ottla.legacy.requests import FetchRequestBuilder as FetchRequestBuilder
from ottla.legacy.requests import FetchResponse as FetchResponse
from ottla.legacy.requests import MessageAndOffset as MessageAndOffset
from ottla.legacy.requests import OffsetCommitRequest as OffsetCommitRequest
from ottla.legacy.requests import OffsetFetchRequest as OffsetFetchRequest
from ottla.legacy.requests import OffsetMetadataAndError as OffsetMetadataAndError
from ottla.legacy.requests import OffsetRequest as OffsetRequest
from ottla.legacy.requests import PartitionFetchInfo as PartitionFetchInfo
from ottla.legacy.requests import PartitionMetadata as PartitionMetadata
from ottla.legacy.requests import PartitionOffsetRequestInfo as PartitionOffsetRequestInfo
from ottla.legacy.requests import TopicMetadata as TopicMetadata
from ottla.legacy.requests import TopicMetadataRequest as TopicMetadataRequest
from ottla.model import OffsetAndMetadata as OffsetAndMetadata
from ottla.model import TopicPartition as TopicPartition
from ottla.net.client.blocking_channel import BlockingChannel as BlockingChannel

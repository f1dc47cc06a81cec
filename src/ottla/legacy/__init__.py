"""The clients of Kafka 0.8 in their own shape: `Producer` and `SimpleConsumer`.

For programs and readers of that time; new programs want `ottla.KafkaProducer` and `ottla.KafkaConsumer`. They work with
every broker that still answers version 0 of their calls: Ottla, and Apache Kafka to 3.9.
"""

from ottla.legacy.broker_partition_info import BrokerPartitionInfo as BrokerPartitionInfo
from ottla.legacy.client_utils import ClientUtils as ClientUtils
from ottla.legacy.default_event_handler import DefaultEventHandler as DefaultEventHandler
from ottla.legacy.encoder import DefaultEncoder as DefaultEncoder
from ottla.legacy.encoder import Encoder as Encoder
from ottla.legacy.encoder import NullEncoder as NullEncoder
from ottla.legacy.encoder import StringEncoder as StringEncoder
from ottla.legacy.errors import FailedToSendMessageError as FailedToSendMessageError
from ottla.legacy.errors import FailedToSendMessageException as FailedToSendMessageException
from ottla.legacy.errors import ProducerClosedError as ProducerClosedError
from ottla.legacy.errors import ProducerClosedException as ProducerClosedException
from ottla.legacy.errors import QueueFullError as QueueFullError
from ottla.legacy.errors import QueueFullException as QueueFullException
from ottla.legacy.keyed_message import KeyedMessage as KeyedMessage
from ottla.legacy.keyed_message import Message as Message
from ottla.legacy.partitioner import ByteArrayPartitioner as ByteArrayPartitioner
from ottla.legacy.partitioner import DefaultPartitioner as DefaultPartitioner
from ottla.legacy.partitioner import Partitioner as Partitioner
from ottla.legacy.producer import Producer as Producer
from ottla.legacy.producer_config import ProducerConfig as ProducerConfig
from ottla.legacy.producer_pool import ProducerPool as ProducerPool
from ottla.legacy.producer_send_thread import ProducerSendThread as ProducerSendThread
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
from ottla.legacy.simple_consumer import SimpleConsumer as SimpleConsumer
from ottla.legacy.sync_producer import SyncProducer as SyncProducer
from ottla.model import OffsetAndMetadata as OffsetAndMetadata
from ottla.model import TopicPartition as TopicPartition
from ottla.net.blocking_channel import BlockingChannel as BlockingChannel

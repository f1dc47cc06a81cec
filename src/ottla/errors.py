"""Kafka's errors: a class for each error code, which also says whether a request may be retried.

The broker converts these exceptions to the codes in its responses, and the clients convert codes to exceptions. Codes
and names are those of `org.apache.kafka.common.protocol.Errors`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar


def _upper_case(class_name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", class_name.removesuffix("Error")).upper()


class KafkaError(Exception):
    """Base class of the exceptions for Kafka's error codes, and of Ottla's exceptions without a code.

    The default message is the first line of the class docstring. Subclasses can set their attributes with class
    arguments: `class X(KafkaError, code=6, retriable=True)`.
    """

    code: ClassVar[int | None] = None
    """The error code in responses; None if the protocol has no code for the error."""
    name: ClassVar[str] = ""
    """Kafka's name of the error code; empty if there is no code. The default is the class name without `Error`, in
    upper case with underscores.
    """
    retriable: ClassVar[bool] = False
    """Whether the same request may succeed if it is sent again."""
    refresh_metadata: ClassVar[bool] = False
    """Whether a client should refresh its metadata before it retries."""

    def __init_subclass__(
        cls,
        *,
        code: int | None = None,
        name: str = "",
        retriable: bool | None = None,
        refresh_metadata: bool | None = None,
    ) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code = code
            cls.name = name or _upper_case(cls.__name__)
        if retriable is not None:
            cls.retriable = retriable
        if refresh_metadata is not None:
            cls.refresh_metadata = refresh_metadata

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or type(self).__name__).strip().splitlines()[0])

    @property
    def message(self) -> str:
        """The message of the error. The broker sends it in responses that have a field for it."""
        return str(self.args[0])


# Errors for which the protocol has no code.


class ConfigurationError(KafkaError, ValueError):
    """The configuration is not valid: for example, an option is unknown or missing, or its value is not allowed."""


class SerializationError(KafkaError, ValueError):
    """A key, value or header could not be serialized or deserialized, or a batch could not be encoded."""


class KafkaTimeoutError(KafkaError, TimeoutError, retriable=True):
    """The call did not complete in time."""


class BufferExhaustedError(KafkaTimeoutError):
    """No space for the record became available in buffer.memory within max.block.ms."""


class TransactionAbortedError(KafkaError):
    """The record was not sent, because its transaction was aborted.

    Also raised by a transaction that must be aborted because sending its offsets was interrupted.
    """


class BrokerConnectionError(KafkaError, ConnectionError, retriable=True, refresh_metadata=True):
    """The connection to a broker failed."""


class SslAuthenticationError(BrokerConnectionError, retriable=False, refresh_metadata=False):
    """The TLS handshake failed, for example because a certificate is not trusted, or no TLS version is in common."""


class MalformedMessageError(KafkaError, ValueError):
    """The bytes are not a valid message of the protocol."""


class IllegalStateError(KafkaError, RuntimeError):
    """The call is not allowed in the current state of the object (such as closed, not subscribed, or forked)."""


class NoOffsetForPartitionError(KafkaError):
    """The partition has no committed offset, and auto.offset.reset is none."""


class CommitFailedError(KafkaError):
    """The offsets were not committed, because the group is rebalancing or has rebalanced; poll() joins it again."""


class RecordDeserializationError(SerializationError):
    """A record could not be deserialized (KIP-1036). To continue after it, call seek(topic_partition, offset + 1)."""

    def __init__(self, message: str, topic_partition: Any, offset: int, *, is_key: bool, record: Any) -> None:
        super().__init__(message)
        self.topic_partition = topic_partition
        self.offset = offset
        self.is_key = is_key
        """Whether the key could not be deserialized; otherwise the value."""
        self.record = record
        """The ConsumerRecord with the serialized key and value as bytes."""


class RetriableCommitFailedError(CommitFailedError, retriable=True):
    """An asynchronous commit failed; a later one may succeed."""


class WakeupError(KafkaError):
    """A waiting call was interrupted by wakeup()."""


class StartupError(KafkaError):
    """A broker or another program cannot start, because of its configuration or of a service that it requires."""


# Errors with a code, sorted by code.


class UnknownServerError(KafkaError, code=-1, name="UNKNOWN_SERVER_ERROR"):
    """An unexpected error occurred while the broker handled the request."""


class OffsetOutOfRangeError(KafkaError, code=1):
    """The offset is not in the log of the partition."""


class CorruptMessageError(KafkaError, code=2, retriable=True):
    """The batch has a wrong CRC, exceeds a size limit, or is otherwise corrupt."""


class CorruptBatchError(CorruptMessageError, retriable=False):
    """A batch cannot be decoded. To continue after it, a consumer calls seek(topic_partition, next_offset)."""

    def __init__(self, message: str, topic_partition: Any, offset: int, next_offset: int) -> None:
        super().__init__(message)
        self.topic_partition = topic_partition
        self.offset = offset
        """The first offset that was not returned to the application."""
        self.next_offset = next_offset
        """The offset after the corrupt batch."""


class UnknownTopicOrPartitionError(KafkaError, code=3, retriable=True, refresh_metadata=True):
    """The topic or partition does not exist, or is not on this broker."""


class InvalidFetchSizeError(KafkaError, code=4):
    """The requested fetch size is not valid."""


class LeaderNotAvailableError(KafkaError, code=5, retriable=True, refresh_metadata=True):
    """The partition has no leader at the moment, for example during an election."""


class NotLeaderOrFollowerError(KafkaError, code=6, retriable=True, refresh_metadata=True):
    """This broker is not the leader of the partition, or not the replica that the request needs."""


class RequestTimedOutError(KafkaError, code=7, retriable=True):
    """The request did not complete within its time limit."""


class BrokerNotAvailableError(KafkaError, code=8):
    """The broker is not available."""


class ReplicaNotAvailableError(KafkaError, code=9, retriable=True, refresh_metadata=True):
    """The replica is not available for the partition."""


class MessageTooLargeError(KafkaError, code=10):
    """The batch is larger than the broker or topic accepts (message.max.bytes, max.message.bytes).

    The clients also raise it for a record above max.request.size or buffer.memory, and for a batch above
    max.partition.fetch.bytes from an old broker.
    """


class StaleControllerEpochError(KafkaError, code=11):
    """The controller epoch of the request is outdated, because the controller has changed."""


class OffsetMetadataTooLargeError(KafkaError, code=12):
    """The metadata string of an offset commit is longer than offset.metadata.max.bytes."""


class NetworkError(KafkaError, code=13, name="NETWORK_EXCEPTION", retriable=True, refresh_metadata=True):
    """The connection was closed before the response arrived."""


class CoordinatorLoadInProgressError(KafkaError, code=14, retriable=True):
    """The coordinator is still loading its state."""


class CoordinatorNotAvailableError(KafkaError, code=15, retriable=True):
    """The coordinator is not available."""


class NotCoordinatorError(KafkaError, code=16, retriable=True):
    """This broker is not the coordinator of the group, transactional id or share partition."""


class InvalidTopicError(KafkaError, code=17, name="INVALID_TOPIC_EXCEPTION"):
    """The topic name is not valid (letters, digits, '.', '_' and '-', at most 249), or clients may not write to it."""


class RecordListTooLargeError(KafkaError, code=18):
    """A batch in the request is larger than a log segment."""


class NotEnoughReplicasError(KafkaError, code=19, retriable=True):
    """Fewer replicas are in sync than min.insync.replicas requires, so the batch was not written."""


class NotEnoughReplicasAfterAppendError(KafkaError, code=20, retriable=True):
    """The batch was written, but to fewer in-sync replicas than min.insync.replicas requires."""


class InvalidRequiredAcksError(KafkaError, code=21):
    """The acks of the produce request are not -1, 0 or 1."""


class IllegalGenerationError(KafkaError, code=22):
    """The generation is not the current generation of the group."""


class InconsistentGroupProtocolError(KafkaError, code=23):
    """The member and the group have no common assignor, or their protocol types differ."""


class InvalidGroupIdError(KafkaError, code=24):
    """The group id is empty or not valid."""


class UnknownMemberIdError(KafkaError, code=25):
    """The coordinator does not know this member."""


class InvalidSessionTimeoutError(KafkaError, code=26):
    """The session timeout is not between group.min.session.timeout.ms and group.max.session.timeout.ms."""


class RebalanceInProgressError(KafkaError, code=27):
    """The group is rebalancing, so the member must rejoin."""


class InvalidCommitOffsetSizeError(KafkaError, code=28):
    """The offset commit is too large to be stored."""


class TopicAuthorizationFailedError(KafkaError, code=29):
    """Access to the topic is denied."""


class GroupAuthorizationFailedError(KafkaError, code=30):
    """Access to the group is denied."""


class ClusterAuthorizationFailedError(KafkaError, code=31):
    """The operation on the cluster is denied."""


class InvalidTimestampError(KafkaError, code=32):
    """The timestamp of the record is outside the range that the topic accepts."""


class UnsupportedSaslMechanismError(KafkaError, code=33):
    """The broker does not offer this SASL mechanism."""


class IllegalSaslStateError(KafkaError, code=34):
    """The request is not allowed in the current state of the SASL authentication."""


class UnsupportedVersionError(KafkaError, code=35):
    """This version of the API is not supported."""


class TopicAlreadyExistsError(KafkaError, code=36):
    """A topic with this name already exists."""


class InvalidPartitionsError(KafkaError, code=37):
    """The number of partitions, or the number of a partition, is not valid."""


class InvalidReplicationFactorError(KafkaError, code=38):
    """The replication factor is not valid, for example more than the number of available brokers."""


class InvalidReplicaAssignmentError(KafkaError, code=39):
    """The replica assignment is not valid."""


class InvalidConfigError(KafkaError, code=40):
    """The configuration is not valid."""


class NotControllerError(KafkaError, code=41, retriable=True, refresh_metadata=True):
    """This broker is not the controller."""


class InvalidRequestError(KafkaError, code=42):
    """The request is malformed or its fields contradict each other."""


class UnsupportedForMessageFormatError(KafkaError, code=43):
    """The message format of the log does not support the request."""


class PolicyViolationError(KafkaError, code=44):
    """The request violates a policy of the cluster."""


class OutOfOrderSequenceNumberError(KafkaError, code=45):
    """The sequence number of the batch does not follow the last one of the producer."""


class DuplicateSequenceNumberError(KafkaError, code=46):
    """A batch with this sequence number was written before."""


class InvalidProducerEpochError(KafkaError, code=47):
    """The epoch of the producer is outdated."""


class InvalidTxnStateError(KafkaError, code=48):
    """The operation is not allowed in the current state of the transaction."""


class InvalidProducerIdMappingError(KafkaError, code=49):
    """The producer id is not the one that is assigned to the transactional id."""


class InvalidTransactionTimeoutError(KafkaError, code=50):
    """The transaction timeout is not positive, or greater than transaction.max.timeout.ms."""


class ConcurrentTransactionsError(KafkaError, code=51, retriable=True):
    """Another operation on the transaction is in progress."""


class TransactionCoordinatorFencedError(KafkaError, code=52):
    """A newer transaction coordinator exists."""


class TransactionalIdAuthorizationFailedError(KafkaError, code=53):
    """Access to the transactional id is denied."""


class SecurityDisabledError(KafkaError, code=54):
    """Security features are disabled on the broker."""


class OperationNotAttemptedError(KafkaError, code=55):
    """This part of the request was not attempted, because another part failed."""


class KafkaStorageError(KafkaError, code=56, name="KAFKA_STORAGE_ERROR", retriable=True, refresh_metadata=True):
    """A log cannot be read or written, for example because its log directory has failed."""


class LogDirNotFoundError(KafkaError, code=57):
    """The broker has no such log directory."""


class SaslAuthenticationFailedError(KafkaError, code=58):
    """SASL authentication failed."""


class UnknownProducerIdError(KafkaError, code=59):
    """The broker has no state of this producer id."""


class ReassignmentInProgressError(KafkaError, code=60):
    """A reassignment of the partition is in progress."""


class DelegationTokenAuthDisabledError(KafkaError, code=61):
    """Delegation tokens are disabled."""


class DelegationTokenNotFoundError(KafkaError, code=62):
    """The delegation token does not exist."""


class DelegationTokenOwnerMismatchError(KafkaError, code=63):
    """The delegation token belongs to another principal."""


class DelegationTokenRequestNotAllowedError(KafkaError, code=64):
    """Delegation token requests are not allowed on this connection."""


class DelegationTokenAuthorizationFailedError(KafkaError, code=65):
    """Access to delegation tokens is denied."""


class DelegationTokenExpiredError(KafkaError, code=66):
    """The delegation token has expired."""


class InvalidPrincipalTypeError(KafkaError, code=67):
    """The principal type is not supported."""


class NonEmptyGroupError(KafkaError, code=68):
    """The group has members."""


class GroupIdNotFoundError(KafkaError, code=69):
    """The group does not exist."""


class FetchSessionIdNotFoundError(KafkaError, code=70, retriable=True):
    """The fetch session does not exist."""


class InvalidFetchSessionEpochError(KafkaError, code=71, retriable=True):
    """The epoch of the fetch session is not the expected one."""


class ListenerNotFoundError(KafkaError, code=72, retriable=True, refresh_metadata=True):
    """The leader of the partition has no listener with the name of the listener that received the request."""


class TopicDeletionDisabledError(KafkaError, code=73):
    """Topic deletion is disabled (delete.topic.enable)."""


class FencedLeaderEpochError(KafkaError, code=74, retriable=True, refresh_metadata=True):
    """The leader epoch of the request is older than that of the broker."""


class UnknownLeaderEpochError(KafkaError, code=75, retriable=True, refresh_metadata=True):
    """The leader epoch of the request is newer than that of the broker."""


class UnsupportedCompressionTypeError(KafkaError, code=76):
    """The compression type is not supported, or not in this request version."""


class StaleBrokerEpochError(KafkaError, code=77):
    """The broker's epoch has changed."""


class OffsetNotAvailableError(KafkaError, code=78, retriable=True, refresh_metadata=True):
    """The high watermark has not caught up yet, because the leader was elected recently."""


class MemberIdRequiredError(KafkaError, code=79):
    """The member must rejoin with the member id in the response."""


class PreferredLeaderNotAvailableError(KafkaError, code=80, retriable=True, refresh_metadata=True):
    """The preferred leader is not available."""


class GroupMaxSizeReachedError(KafkaError, code=81):
    """The group has the maximum number of members (group.max.size, or group.TYPE.max.size)."""


class FencedInstanceIdError(KafkaError, code=82):
    """Another member has joined with the same group.instance.id."""


class EligibleLeadersNotAvailableError(KafkaError, code=83, retriable=True, refresh_metadata=True):
    """No eligible leader is available."""


class ElectionNotNeededError(KafkaError, code=84, retriable=True, refresh_metadata=True):
    """The partition needs no leader election."""


class NoReassignmentInProgressError(KafkaError, code=85):
    """No reassignment of the partition is in progress."""


class GroupSubscribedToTopicError(KafkaError, code=86):
    """The group is subscribed to the topic, so its offsets cannot be deleted."""


class InvalidRecordError(KafkaError, code=87):
    """The record failed validation on the broker."""


class UnstableOffsetCommitError(KafkaError, code=88, retriable=True):
    """The offsets may change, for example because they are part of a transaction that is not complete."""


class ThrottlingQuotaExceededError(KafkaError, code=89, retriable=True):
    """A quota is exceeded, so the request was rejected."""


class ProducerFencedError(KafkaError, code=90):
    """A newer producer uses the same transactional id."""


class ResourceNotFoundError(KafkaError, code=91):
    """The resource does not exist."""


class DuplicateResourceError(KafkaError, code=92):
    """The request contains the same resource twice."""


class UnacceptableCredentialError(KafkaError, code=93):
    """The credential does not meet the requirements."""


class InconsistentVoterSetError(KafkaError, code=94):
    """The set of voters is not the expected one."""


class InvalidUpdateVersionError(KafkaError, code=95):
    """The version of the update is not valid."""


class FeatureUpdateFailedError(KafkaError, code=96):
    """The feature could not be updated."""


class PrincipalDeserializationFailureError(KafkaError, code=97):
    """The principal of the forwarded request cannot be decoded."""


class SnapshotNotFoundError(KafkaError, code=98):
    """The snapshot does not exist."""


class PositionOutOfRangeError(KafkaError, code=99):
    """The position is outside the snapshot."""


class UnknownTopicIdError(KafkaError, code=100, retriable=True, refresh_metadata=True):
    """The broker has no topic with this id."""


class DuplicateBrokerRegistrationError(KafkaError, code=101):
    """A broker with this id is already registered."""


class BrokerIdNotRegisteredError(KafkaError, code=102):
    """The broker id is not registered."""


class InconsistentTopicIdError(KafkaError, code=103, retriable=True, refresh_metadata=True):
    """The topic id of the request differs from that of the broker."""


class InconsistentClusterIdError(KafkaError, code=104):
    """The cluster id of the request differs from that of the broker."""


class TransactionalIdNotFoundError(KafkaError, code=105):
    """The transactional id does not exist."""


class FetchSessionTopicIdError(KafkaError, code=106, name="FETCH_SESSION_TOPIC_ID_ERROR", retriable=True):
    """Some requests of the fetch session used topic ids, and others did not."""


class IneligibleReplicaError(KafkaError, code=107):
    """The replica is not eligible to join the in-sync replicas."""


class NewLeaderElectedError(KafkaError, code=108):
    """A new leader was elected while the partition was changed."""


class OffsetMovedToTieredStorageError(KafkaError, code=109):
    """The offset has moved to tiered storage."""


class FencedMemberEpochError(KafkaError, code=110):
    """The member epoch is fenced by the coordinator; the member must rejoin."""


class UnreleasedInstanceIdError(KafkaError, code=111):
    """Another member has not released the group.instance.id yet."""


class UnsupportedAssignorError(KafkaError, code=112):
    """The group coordinator does not support this assignor."""


class StaleMemberEpochError(KafkaError, code=113):
    """The member epoch is not the current one; the member must send a heartbeat first."""


class MismatchedEndpointTypeError(KafkaError, code=114):
    """The request was sent to the wrong type of endpoint."""


class UnsupportedEndpointTypeError(KafkaError, code=115):
    """The endpoint type is not supported."""


class UnknownControllerIdError(KafkaError, code=116):
    """The controller id is unknown."""


class UnknownSubscriptionIdError(KafkaError, code=117):
    """The subscription id of the telemetry push is not the current one."""


class TelemetryTooLargeError(KafkaError, code=118):
    """The telemetry push is too large."""


class InvalidRegistrationError(KafkaError, code=119):
    """The broker registration is not valid."""


class TransactionAbortableError(KafkaError, code=120):
    """The transaction had an error and must be aborted."""


class InvalidRecordStateError(KafkaError, code=121):
    """The record of the share group is not in a state that allows the acknowledgement."""


class ShareSessionNotFoundError(KafkaError, code=122, retriable=True):
    """The share session does not exist."""


class InvalidShareSessionEpochError(KafkaError, code=123, retriable=True):
    """The epoch of the share session is not the expected one."""


class FencedStateEpochError(KafkaError, code=124):
    """The state epoch is fenced by the share coordinator."""


class InvalidVoterKeyError(KafkaError, code=125):
    """The voter key does not match the replica that received the request."""


class DuplicateVoterError(KafkaError, code=126):
    """The voter is already part of the voter set."""


class VoterNotFoundError(KafkaError, code=127):
    """The voter is not part of the voter set."""


class InvalidRegularExpressionError(KafkaError, code=128):
    """The regular expression is not valid."""


class RebootstrapRequiredError(KafkaError, code=129):
    """The client must bootstrap again."""


class StreamsInvalidTopologyError(KafkaError, code=130):
    """The topology is not valid."""


class StreamsInvalidTopologyEpochError(KafkaError, code=131):
    """The topology epoch is not valid."""


class StreamsTopologyFencedError(KafkaError, code=132):
    """The topology epoch is outdated."""


class ShareSessionLimitReachedError(KafkaError, code=133, retriable=True):
    """The broker has the maximum number of share sessions, or the share session has too many partitions."""


# Errors without a code that are subclasses of errors with a code.


class LogTruncationError(OffsetOutOfRangeError):
    """The log was truncated below the position of the consumer, and auto.offset.reset is none."""

    code: ClassVar[int | None] = None
    name = ""

    def __init__(self, divergent: Mapping[Any, Any]) -> None:
        super().__init__(
            "the log was truncated: "
            + ", ".join(
                f"{tp} diverges at {'an unknown offset' if at is None else at.offset}" for tp, at in divergent.items()
            )
        )
        self.divergent_offsets: dict[Any, Any] = dict(divergent)
        """The first divergent offset of each partition as an OffsetAndMetadata; None if it is unknown."""


NONE = 0
"""The code for success."""

BY_CODE: dict[int, type[KafkaError]] = {
    vars(error)["code"]: error
    for error in globals().copy().values()
    if isinstance(error, type) and issubclass(error, KafkaError) and vars(error).get("code") is not None
}
"""The error classes by their codes."""


def for_code(code: int) -> type[KafkaError]:
    """Return the error class of a code that is not 0. As in Kafka, this is UnknownServerError for an unknown code."""
    return BY_CODE.get(code, UnknownServerError)


def code_of(error: BaseException) -> int:
    """Return the error code of an exception, or UNKNOWN_SERVER_ERROR (-1) if it has none."""
    code = error.code if isinstance(error, KafkaError) else None
    return -1 if code is None else code


# Names of kafka-python, for programs that only replace the import.

BrokerResponseError = KafkaError
CorruptRecordError = CorruptMessageError
CorruptRecordException = CorruptMessageError
IllegalArgumentError = ValueError
IncompatibleBrokerVersion = UnsupportedVersionError
InvalidConfigurationError = InvalidConfigError
InvalidReplicationAssignmentError = InvalidReplicaAssignmentError
KafkaConfigurationError = ConfigurationError
KafkaConnectionError = BrokerConnectionError
KafkaProtocolError = MalformedMessageError
MessageSizeTooLargeError = MessageTooLargeError
NetworkExceptionError = NetworkError
NoBrokersAvailable = KafkaTimeoutError
NotLeaderForPartitionError = NotLeaderOrFollowerError
UnknownError = UnknownServerError
UnrecognizedBrokerVersion = UnsupportedVersionError
UnsupportedCodecError = UnsupportedCompressionTypeError

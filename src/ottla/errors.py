"""Kafka's errors: one class per error code, with its retry rules.

Ottla's code raises these classes. Only the broker's `dispatch` turns them into codes, and only the client's channel
turns codes into exceptions. Whether an error is retriable, and whether a client should refresh its metadata first, is
stated here and nowhere else. Codes and names are those of `org.apache.kafka.common.protocol.Errors`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar


def _upper_case(class_name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", class_name.removesuffix("Error")).upper()


class KafkaError(Exception):
    """Base of everything that Ottla raises on purpose.

    The default message is the first line of the class docstring. Subclasses state their attributes as class arguments:
    `class X(KafkaError, code=6, retriable=True)`.
    """

    code: ClassVar[int | None] = None
    """The number on the wire; None for an error that exists only inside a client."""
    name: ClassVar[str] = ""
    """Kafka's name of the code: that of the class in upper case, unless stated otherwise."""
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
        """The error message of a response, for responses that have such a field."""
        return str(self.args[0])


# Errors without a number: raised in a client or at start-up, never sent.


class ConfigurationError(KafkaError, ValueError):
    """An option is unknown, missing or has a value that is not allowed."""


class SerializationError(KafkaError, ValueError):
    """A key, value or header could not be serialized or deserialized."""


class KafkaTimeoutError(KafkaError, TimeoutError, retriable=True):
    """The call did not complete within its time limit."""


class BufferExhaustedError(KafkaTimeoutError):
    """No room for the record came free in buffer.memory within max.block.ms."""


class TransactionAbortedError(KafkaError):
    """The record was not sent: its transaction was aborted."""


class BrokerConnectionError(KafkaError, ConnectionError, retriable=True, refresh_metadata=True):
    """No connection to a broker could be made or kept."""


class SslAuthenticationError(BrokerConnectionError, retriable=False, refresh_metadata=False):
    """The TLS handshake has failed: one side does not trust the other, or they have nothing in common."""


class MalformedMessageError(KafkaError, ValueError):
    """Bytes do not form the message that they should."""


class IllegalStateError(KafkaError, RuntimeError):
    """The call does not fit the state that the object is in (closed, not subscribed, forked…)."""


class NoOffsetForPartitionError(KafkaError):
    """A partition has no committed offset and auto.offset.reset is none."""


class CommitFailedError(KafkaError):
    """The group has rebalanced, so the offsets were not committed; poll() joins the group again."""


class RecordDeserializationError(SerializationError):
    """A record could not be deserialized (KIP-1036). To continue after it, call seek(topic_partition, offset + 1)."""

    def __init__(self, message: str, topic_partition: Any, offset: int, *, is_key: bool, record: Any) -> None:
        super().__init__(message)
        self.topic_partition = topic_partition
        self.offset = offset
        self.is_key = is_key
        """Whether it was the key; else the value."""
        self.record = record
        """The ConsumerRecord as it was read: key and value are bytes, with timestamp and headers."""


class RetriableCommitFailedError(CommitFailedError, retriable=True):
    """An asynchronous commit did not succeed; another one may."""


class WakeupError(KafkaError):
    """A call that waited was interrupted by wakeup()."""


class StartupError(KafkaError):
    """The broker cannot start as configured; the message says why and what to do."""


# Errors with a number, in the order of their numbers.


class UnknownServerError(KafkaError, code=-1, name="UNKNOWN_SERVER_ERROR"):
    """The broker met an unexpected error while it handled the request."""


class OffsetOutOfRangeError(KafkaError, code=1):
    """The offset lies outside the range that the partition holds."""


class CorruptMessageError(KafkaError, code=2, retriable=True):
    """The batch fails its CRC check, exceeds a size bound, or is otherwise corrupt."""


class CorruptBatchError(CorruptMessageError, retriable=False):
    """A batch was fetched that cannot be decoded. To continue after it, call seek(topic_partition, next_offset)."""

    def __init__(self, message: str, topic_partition: Any, offset: int, next_offset: int) -> None:
        super().__init__(message)
        self.topic_partition = topic_partition
        self.offset = offset
        """The next offset that the consumer would return: records before it were returned."""
        self.next_offset = next_offset
        """The offset after the batch."""


class UnknownTopicOrPartitionError(KafkaError, code=3, retriable=True, refresh_metadata=True):
    """The broker does not host this topic or partition."""


class InvalidFetchSizeError(KafkaError, code=4):
    """The requested fetch size is not valid."""


class LeaderNotAvailableError(KafkaError, code=5, retriable=True, refresh_metadata=True):
    """The partition has no leader at the moment, as during an election."""


class NotLeaderOrFollowerError(KafkaError, code=6, retriable=True, refresh_metadata=True):
    """This broker is not the replica that the request needs for the partition."""


class RequestTimedOutError(KafkaError, code=7, retriable=True):
    """The request did not complete within its time limit."""


class BrokerNotAvailableError(KafkaError, code=8):
    """The broker is not available."""


class ReplicaNotAvailableError(KafkaError, code=9, retriable=True, refresh_metadata=True):
    """The replica is not available for the partition."""


class MessageTooLargeError(KafkaError, code=10):
    """The batch is larger than the broker or topic accepts (message.max.bytes, max.message.bytes)."""


class StaleControllerEpochError(KafkaError, code=11):
    """The controller has moved to another broker."""


class OffsetMetadataTooLargeError(KafkaError, code=12):
    """The metadata string of an offset commit is longer than offset.metadata.max.bytes."""


class NetworkError(KafkaError, code=13, name="NETWORK_EXCEPTION", retriable=True, refresh_metadata=True):
    """The peer closed the connection before it answered."""


class CoordinatorLoadInProgressError(KafkaError, code=14, retriable=True):
    """The coordinator is still loading its state."""


class CoordinatorNotAvailableError(KafkaError, code=15, retriable=True):
    """The coordinator is not available."""


class NotCoordinatorError(KafkaError, code=16, retriable=True):
    """This broker is not the coordinator of the group or transaction."""


class InvalidTopicError(KafkaError, code=17, name="INVALID_TOPIC_EXCEPTION"):
    """The topic name is not valid, or the topic may not be written to directly."""


class RecordListTooLargeError(KafkaError, code=18):
    """The request holds a batch larger than a log segment."""


class NotEnoughReplicasError(KafkaError, code=19, retriable=True):
    """Fewer replicas are in sync than min.insync.replicas requires."""


class NotEnoughReplicasAfterAppendError(KafkaError, code=20, retriable=True):
    """The batch was written, but to fewer in-sync replicas than required."""


class InvalidRequiredAcksError(KafkaError, code=21):
    """The produce request's acks is none of -1, 0 and 1."""


class IllegalGenerationError(KafkaError, code=22):
    """The generation is not the group's current one."""


class InconsistentGroupProtocolError(KafkaError, code=23):
    """The member shares no protocol with the group, or the protocol type differs."""


class InvalidGroupIdError(KafkaError, code=24):
    """The group id is empty or not valid."""


class UnknownMemberIdError(KafkaError, code=25):
    """The coordinator does not know this member."""


class InvalidSessionTimeoutError(KafkaError, code=26):
    """The session timeout lies outside group.min.session.timeout.ms and group.max.session.timeout.ms."""


class RebalanceInProgressError(KafkaError, code=27):
    """The group is rebalancing, so the member has to rejoin."""


class InvalidCommitOffsetSizeError(KafkaError, code=28):
    """The offset commit is too large to be stored."""


class TopicAuthorizationFailedError(KafkaError, code=29):
    """Access to the topic is denied."""


class GroupAuthorizationFailedError(KafkaError, code=30):
    """Access to the group is denied."""


class ClusterAuthorizationFailedError(KafkaError, code=31):
    """The operation on the cluster is denied."""


class InvalidTimestampError(KafkaError, code=32):
    """The record's timestamp lies outside the bounds that the topic accepts."""


class UnsupportedSaslMechanismError(KafkaError, code=33):
    """The broker does not offer this SASL mechanism."""


class IllegalSaslStateError(KafkaError, code=34):
    """The request does not fit the state of the SASL exchange."""


class UnsupportedVersionError(KafkaError, code=35):
    """This version of the API is not supported."""


class TopicAlreadyExistsError(KafkaError, code=36):
    """A topic of this name exists already."""


class InvalidPartitionsError(KafkaError, code=37):
    """The number of partitions is not valid."""


class InvalidReplicationFactorError(KafkaError, code=38):
    """The replication factor is below 1 or above the number of available brokers."""


class InvalidReplicaAssignmentError(KafkaError, code=39):
    """The replica assignment is not valid."""


class InvalidConfigError(KafkaError, code=40):
    """The configuration is not valid."""


class NotControllerError(KafkaError, code=41, retriable=True, refresh_metadata=True):
    """This broker is not the controller."""


class InvalidRequestError(KafkaError, code=42):
    """The request is malformed or contradicts itself."""


class UnsupportedForMessageFormatError(KafkaError, code=43):
    """The log's message format does not support the request."""


class PolicyViolationError(KafkaError, code=44):
    """The request violates a policy of the cluster."""


class OutOfOrderSequenceNumberError(KafkaError, code=45):
    """The batch's sequence number does not follow the producer's last one."""


class DuplicateSequenceNumberError(KafkaError, code=46):
    """The batch's sequence number was written before."""


class InvalidProducerEpochError(KafkaError, code=47):
    """The producer's epoch is older than the one the broker knows."""


class InvalidTxnStateError(KafkaError, code=48):
    """The transactional operation does not fit the transaction's state."""


class InvalidProducerIdMappingError(KafkaError, code=49):
    """The producer id is not the one assigned to the transactional id."""


class InvalidTransactionTimeoutError(KafkaError, code=50):
    """The transaction timeout is above transaction.max.timeout.ms."""


class ConcurrentTransactionsError(KafkaError, code=51, retriable=True):
    """The transaction is being changed by another operation."""


class TransactionCoordinatorFencedError(KafkaError, code=52):
    """A newer transaction coordinator has taken over."""


class TransactionalIdAuthorizationFailedError(KafkaError, code=53):
    """Access to the transactional id is denied."""


class SecurityDisabledError(KafkaError, code=54):
    """Security features are disabled on the broker."""


class OperationNotAttemptedError(KafkaError, code=55):
    """The broker did not attempt this part of the request because another part failed."""


class KafkaStorageError(KafkaError, code=56, name="KAFKA_STORAGE_ERROR", retriable=True, refresh_metadata=True):
    """The log directory failed while the broker used it."""


class LogDirNotFoundError(KafkaError, code=57):
    """The broker has no such log directory."""


class SaslAuthenticationFailedError(KafkaError, code=58):
    """SASL authentication failed."""


class UnknownProducerIdError(KafkaError, code=59):
    """The broker no longer holds state for this producer id."""


class ReassignmentInProgressError(KafkaError, code=60):
    """A reassignment of the partition is in progress."""


class DelegationTokenAuthDisabledError(KafkaError, code=61):
    """Delegation tokens are disabled."""


class DelegationTokenNotFoundError(KafkaError, code=62):
    """The broker does not know the delegation token."""


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
    """The group still has members."""


class GroupIdNotFoundError(KafkaError, code=69):
    """There is no such group."""


class FetchSessionIdNotFoundError(KafkaError, code=70, retriable=True):
    """The broker does not know the fetch session."""


class InvalidFetchSessionEpochError(KafkaError, code=71, retriable=True):
    """The fetch session's epoch is not the expected one."""


class ListenerNotFoundError(KafkaError, code=72, retriable=True, refresh_metadata=True):
    """The leader has no listener of the name on which the request came."""


class TopicDeletionDisabledError(KafkaError, code=73):
    """Topic deletion is disabled (delete.topic.enable)."""


class FencedLeaderEpochError(KafkaError, code=74, retriable=True, refresh_metadata=True):
    """The request's leader epoch is older than the broker's."""


class UnknownLeaderEpochError(KafkaError, code=75, retriable=True, refresh_metadata=True):
    """The request's leader epoch is newer than the broker's."""


class UnsupportedCompressionTypeError(KafkaError, code=76):
    """The compression type is not supported for this request version."""


class StaleBrokerEpochError(KafkaError, code=77):
    """The broker's epoch has changed."""


class OffsetNotAvailableError(KafkaError, code=78, retriable=True, refresh_metadata=True):
    """The leader's high watermark has not caught up since its election."""


class MemberIdRequiredError(KafkaError, code=79):
    """The member has to rejoin with the member id that the coordinator gave it."""


class PreferredLeaderNotAvailableError(KafkaError, code=80, retriable=True, refresh_metadata=True):
    """The preferred leader is not available."""


class GroupMaxSizeReachedError(KafkaError, code=81):
    """The group has as many members as group.max.size allows."""


class FencedInstanceIdError(KafkaError, code=82):
    """Another member has registered the same group.instance.id."""


class EligibleLeadersNotAvailableError(KafkaError, code=83, retriable=True, refresh_metadata=True):
    """No eligible leader is available."""


class ElectionNotNeededError(KafkaError, code=84, retriable=True, refresh_metadata=True):
    """The partition needs no leader election."""


class NoReassignmentInProgressError(KafkaError, code=85):
    """No reassignment of the partition is in progress."""


class GroupSubscribedToTopicError(KafkaError, code=86):
    """The group is subscribed to the topic, so its offsets cannot be deleted."""


class InvalidRecordError(KafkaError, code=87):
    """The broker rejected the record."""


class UnstableOffsetCommitError(KafkaError, code=88, retriable=True):
    """Offsets of an open transaction are still to be decided."""


class ThrottlingQuotaExceededError(KafkaError, code=89, retriable=True):
    """The throttling quota is exceeded."""


class ProducerFencedError(KafkaError, code=90):
    """A newer producer uses the same transactional id."""


class ResourceNotFoundError(KafkaError, code=91):
    """The request names a resource that does not exist."""


class DuplicateResourceError(KafkaError, code=92):
    """The request names the same resource twice."""


class UnacceptableCredentialError(KafkaError, code=93):
    """The credential does not meet the requirements."""


class InconsistentVoterSetError(KafkaError, code=94):
    """The voter set differs from the expected one."""


class InvalidUpdateVersionError(KafkaError, code=95):
    """The update version is not valid."""


class FeatureUpdateFailedError(KafkaError, code=96):
    """The feature could not be updated."""


class PrincipalDeserializationFailureError(KafkaError, code=97):
    """The forwarded principal could not be read."""


class SnapshotNotFoundError(KafkaError, code=98):
    """There is no such snapshot."""


class PositionOutOfRangeError(KafkaError, code=99):
    """The position lies outside the snapshot."""


class UnknownTopicIdError(KafkaError, code=100, retriable=True, refresh_metadata=True):
    """The broker hosts no topic of this id."""


class DuplicateBrokerRegistrationError(KafkaError, code=101):
    """A broker of this id is registered already."""


class BrokerIdNotRegisteredError(KafkaError, code=102):
    """The broker id is not registered."""


class InconsistentTopicIdError(KafkaError, code=103, retriable=True, refresh_metadata=True):
    """The topic's id in the request differs from the broker's."""


class InconsistentClusterIdError(KafkaError, code=104):
    """The cluster id differs from the broker's."""


class TransactionalIdNotFoundError(KafkaError, code=105):
    """There is no such transactional id."""


class FetchSessionTopicIdError(KafkaError, code=106, name="FETCH_SESSION_TOPIC_ID_ERROR", retriable=True):
    """Topic ids were used in some requests of the fetch session and not in others."""


class IneligibleReplicaError(KafkaError, code=107):
    """The replica may not join the in-sync replicas."""


class NewLeaderElectedError(KafkaError, code=108):
    """The partition change led to a new leader."""


class OffsetMovedToTieredStorageError(KafkaError, code=109):
    """The offset has moved to tiered storage."""


class FencedMemberEpochError(KafkaError, code=110):
    """The coordinator has fenced this member's epoch."""


class UnreleasedInstanceIdError(KafkaError, code=111):
    """The group.instance.id is still held by another member."""


class UnsupportedAssignorError(KafkaError, code=112):
    """The group coordinator does not offer this assignor."""


class StaleMemberEpochError(KafkaError, code=113):
    """The member's epoch is not current, so it has to heartbeat first."""


class MismatchedEndpointTypeError(KafkaError, code=114):
    """The request went to an endpoint of the wrong type."""


class UnsupportedEndpointTypeError(KafkaError, code=115):
    """The endpoint type is not supported."""


class UnknownControllerIdError(KafkaError, code=116):
    """The controller id is not known."""


class UnknownSubscriptionIdError(KafkaError, code=117):
    """The telemetry subscription is not current."""


class TelemetryTooLargeError(KafkaError, code=118):
    """The telemetry push is too large."""


class InvalidRegistrationError(KafkaError, code=119):
    """The broker registration is not valid."""


class TransactionAbortableError(KafkaError, code=120):
    """The transaction met an error and has to be aborted."""


class InvalidRecordStateError(KafkaError, code=121):
    """The share group's record is in the wrong state for the acknowledgement."""


class ShareSessionNotFoundError(KafkaError, code=122, retriable=True):
    """The broker does not know the share session."""


class InvalidShareSessionEpochError(KafkaError, code=123, retriable=True):
    """The share session's epoch is not the expected one."""


class FencedStateEpochError(KafkaError, code=124):
    """The share coordinator has fenced this state epoch."""


class InvalidVoterKeyError(KafkaError, code=125):
    """The voter key does not fit the receiving replica."""


class DuplicateVoterError(KafkaError, code=126):
    """The voter is already part of the voter set."""


class VoterNotFoundError(KafkaError, code=127):
    """The voter is not part of the voter set."""


class InvalidRegularExpressionError(KafkaError, code=128):
    """The regular expression is not valid."""


class RebootstrapRequiredError(KafkaError, code=129):
    """The client has to bootstrap again."""


class StreamsInvalidTopologyError(KafkaError, code=130):
    """The topology is not valid."""


class StreamsInvalidTopologyEpochError(KafkaError, code=131):
    """The topology epoch is not valid."""


class StreamsTopologyFencedError(KafkaError, code=132):
    """The topology epoch is outdated."""


class ShareSessionLimitReachedError(KafkaError, code=133, retriable=True):
    """The broker holds as many share sessions as it allows."""


# Errors without a number that are kinds of those above.


class LogTruncationError(OffsetOutOfRangeError):
    """The log was truncated before positions of this consumer, and auto.offset.reset is none."""

    code = None
    name = ""

    def __init__(self, divergent: Mapping[Any, Any]) -> None:
        super().__init__(
            "the log was truncated: "
            + ", ".join(
                f"{tp} diverges at {'an unknown offset' if at is None else at.offset}" for tp, at in divergent.items()
            )
        )
        self.divergent_offsets = dict(divergent)
        """The OffsetAndMetadata of the first divergent offset by partition, or None if it is unknown."""


NONE = 0
"""The code of success."""

BY_CODE: dict[int, type[KafkaError]] = {
    code: error
    for error in globals().copy().values()
    if isinstance(error, type) and issubclass(error, KafkaError) and (code := vars(error).get("code")) is not None
}
"""The error class of each code."""


def for_code(code: int) -> type[KafkaError]:
    """Return the error class of a non-zero code, UnknownServerError for an unknown one, as in Kafka."""
    return BY_CODE.get(code, UnknownServerError)


def code_of(error: BaseException) -> int:
    """Return the error code of an exception, UNKNOWN_SERVER_ERROR (-1) if it has none."""
    code = error.code if isinstance(error, KafkaError) else None
    return -1 if code is None else code


# Names that kafka-python gives them, for programs that change nothing but the import.

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

"""Kafka's errors: one class each, with its number on the wire and whether a retry may help.

Code inside Ottla raises these classes. Only two places turn them into numbers and back: the broker's `dispatch`
and the client's channel. Whether an error is retriable, and whether a client should refresh its metadata first,
stands here and nowhere else. Codes and names are Kafka's (`org.apache.kafka.common.protocol.Errors`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class KafkaError(Exception):
    """Base of everything that Ottla raises on purpose.

    Called without a message it speaks its class docstring. `code` is the number on the wire, or None for an error that
    only exists inside a client (a timeout while waiting for memory, a wrong option).
    """

    code: ClassVar[int | None] = None
    name: ClassVar[str] = ""
    retriable: ClassVar[bool] = False
    refresh_metadata: ClassVar[bool] = False

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or type(self).__name__).strip().splitlines()[0])

    @property
    def message(self) -> str:
        """The text that is sent along with the code where a response has room for one."""
        return str(self.args[0])


# Errors without a number: raised in a client or at start-up, never sent.


class ConfigurationError(KafkaError, ValueError):
    """An option is unknown, missing or has a value that is not allowed."""


class SerializationError(KafkaError, ValueError):
    """A key, value or header could not be serialized or deserialized."""


class KafkaTimeoutError(KafkaError, TimeoutError):
    """The call did not complete within its time limit."""

    retriable = True


class BufferExhaustedError(KafkaTimeoutError):
    """No room for the record came free in buffer.memory within max.block.ms."""


class TransactionAbortedError(KafkaError):
    """The record was not sent: its transaction was aborted."""


class BrokerConnectionError(KafkaError, ConnectionError):
    """No connection to a broker could be made or kept."""

    retriable = True
    refresh_metadata = True


class SslAuthenticationError(BrokerConnectionError):
    """The TLS handshake has failed: one side does not trust the other, or they have nothing in common."""

    retriable = False
    refresh_metadata = False


class MalformedMessageError(KafkaError, ValueError):
    """Bytes do not form the message that they should."""


class IllegalStateError(KafkaError, RuntimeError):
    """The call does not fit the state that the object is in (closed, not subscribed, forked…)."""


class NoOffsetForPartitionError(KafkaError):
    """A partition has no committed offset and auto.offset.reset is none."""


class CommitFailedError(KafkaError):
    """The group has rebalanced, so the offsets were not committed; poll() joins the group again."""


class RecordDeserializationError(SerializationError):
    """A record could not be deserialized (KIP-1036). To go on behind it: seek(topic_partition, offset + 1)."""

    def __init__(self, message: str, topic_partition: Any, offset: int, *, is_key: bool, record: Any) -> None:
        super().__init__(message)
        self.topic_partition = topic_partition
        self.offset = offset
        self.is_key = is_key
        """Whether it was the key; else the value."""
        self.record = record
        """The ConsumerRecord as it was read: key and value are bytes, with timestamp and headers."""


class RetriableCommitFailedError(CommitFailedError):
    """An asynchronous commit did not succeed; another one may."""

    retriable = True


class WakeupError(KafkaError):
    """A call that waited was interrupted by wakeup()."""


class StartupError(KafkaError):
    """The broker cannot start as configured; the message says why and what to do."""


# Errors with a number, in the order of their numbers.


class UnknownServerError(KafkaError):
    """The broker met an unexpected error while it handled the request."""

    code = -1
    name = "UNKNOWN_SERVER_ERROR"


class OffsetOutOfRangeError(KafkaError):
    """The offset lies outside the range that the partition holds."""

    code = 1
    name = "OFFSET_OUT_OF_RANGE"


class CorruptMessageError(KafkaError):
    """The batch fails its CRC check, exceeds a size bound, or is otherwise corrupt."""

    code = 2
    name = "CORRUPT_MESSAGE"
    retriable = True


class CorruptBatchError(CorruptMessageError):
    """A batch was fetched that cannot be decoded. To go on behind it: seek(topic_partition, next_offset)."""

    retriable = False

    def __init__(self, message: str, topic_partition: Any, offset: int, next_offset: int) -> None:
        super().__init__(message)
        self.topic_partition = topic_partition
        self.offset = offset
        """The next offset that the consumer would return: records before it were returned."""
        self.next_offset = next_offset
        """The offset after the batch."""


class UnknownTopicOrPartitionError(KafkaError):
    """The broker does not host this topic or partition."""

    code = 3
    name = "UNKNOWN_TOPIC_OR_PARTITION"
    retriable = True
    refresh_metadata = True


class InvalidFetchSizeError(KafkaError):
    """The requested fetch size is not valid."""

    code = 4
    name = "INVALID_FETCH_SIZE"


class LeaderNotAvailableError(KafkaError):
    """The partition has no leader at the moment, as during an election."""

    code = 5
    name = "LEADER_NOT_AVAILABLE"
    retriable = True
    refresh_metadata = True


class NotLeaderOrFollowerError(KafkaError):
    """This broker is not the replica that the request needs for the partition."""

    code = 6
    name = "NOT_LEADER_OR_FOLLOWER"
    retriable = True
    refresh_metadata = True


class RequestTimedOutError(KafkaError):
    """The request did not complete within its time limit."""

    code = 7
    name = "REQUEST_TIMED_OUT"
    retriable = True


class BrokerNotAvailableError(KafkaError):
    """The broker is not available."""

    code = 8
    name = "BROKER_NOT_AVAILABLE"


class ReplicaNotAvailableError(KafkaError):
    """The replica is not available for the partition."""

    code = 9
    name = "REPLICA_NOT_AVAILABLE"
    retriable = True
    refresh_metadata = True


class MessageTooLargeError(KafkaError):
    """The batch is larger than the broker or topic accepts (message.max.bytes, max.message.bytes)."""

    code = 10
    name = "MESSAGE_TOO_LARGE"


class StaleControllerEpochError(KafkaError):
    """The controller has moved to another broker."""

    code = 11
    name = "STALE_CONTROLLER_EPOCH"


class OffsetMetadataTooLargeError(KafkaError):
    """The metadata string of an offset commit is longer than offset.metadata.max.bytes."""

    code = 12
    name = "OFFSET_METADATA_TOO_LARGE"


class NetworkError(KafkaError):
    """The peer closed the connection before it answered."""

    code = 13
    name = "NETWORK_EXCEPTION"
    retriable = True
    refresh_metadata = True


class CoordinatorLoadInProgressError(KafkaError):
    """The coordinator is still loading its state."""

    code = 14
    name = "COORDINATOR_LOAD_IN_PROGRESS"
    retriable = True


class CoordinatorNotAvailableError(KafkaError):
    """The coordinator is not available."""

    code = 15
    name = "COORDINATOR_NOT_AVAILABLE"
    retriable = True


class NotCoordinatorError(KafkaError):
    """This broker is not the coordinator of the group or transaction."""

    code = 16
    name = "NOT_COORDINATOR"
    retriable = True


class InvalidTopicError(KafkaError):
    """The topic name is not valid, or the topic may not be written to directly."""

    code = 17
    name = "INVALID_TOPIC_EXCEPTION"


class RecordListTooLargeError(KafkaError):
    """The request holds a batch larger than a log segment."""

    code = 18
    name = "RECORD_LIST_TOO_LARGE"


class NotEnoughReplicasError(KafkaError):
    """Fewer replicas are in sync than min.insync.replicas asks for."""

    code = 19
    name = "NOT_ENOUGH_REPLICAS"
    retriable = True


class NotEnoughReplicasAfterAppendError(KafkaError):
    """The batch was written, but to fewer in-sync replicas than required."""

    code = 20
    name = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    retriable = True


class InvalidRequiredAcksError(KafkaError):
    """The produce request's acks is none of -1, 0 and 1."""

    code = 21
    name = "INVALID_REQUIRED_ACKS"


class IllegalGenerationError(KafkaError):
    """The generation is not the group's current one."""

    code = 22
    name = "ILLEGAL_GENERATION"


class InconsistentGroupProtocolError(KafkaError):
    """The member shares no protocol with the group, or the protocol type differs."""

    code = 23
    name = "INCONSISTENT_GROUP_PROTOCOL"


class InvalidGroupIdError(KafkaError):
    """The group id is empty or not valid."""

    code = 24
    name = "INVALID_GROUP_ID"


class UnknownMemberIdError(KafkaError):
    """The coordinator does not know this member."""

    code = 25
    name = "UNKNOWN_MEMBER_ID"


class InvalidSessionTimeoutError(KafkaError):
    """The session timeout lies outside group.min.session.timeout.ms and group.max.session.timeout.ms."""

    code = 26
    name = "INVALID_SESSION_TIMEOUT"


class RebalanceInProgressError(KafkaError):
    """The group is rebalancing, so the member has to rejoin."""

    code = 27
    name = "REBALANCE_IN_PROGRESS"


class InvalidCommitOffsetSizeError(KafkaError):
    """The offset commit is too large to be stored."""

    code = 28
    name = "INVALID_COMMIT_OFFSET_SIZE"


class TopicAuthorizationFailedError(KafkaError):
    """Access to the topic is denied."""

    code = 29
    name = "TOPIC_AUTHORIZATION_FAILED"


class GroupAuthorizationFailedError(KafkaError):
    """Access to the group is denied."""

    code = 30
    name = "GROUP_AUTHORIZATION_FAILED"


class ClusterAuthorizationFailedError(KafkaError):
    """The operation on the cluster is denied."""

    code = 31
    name = "CLUSTER_AUTHORIZATION_FAILED"


class InvalidTimestampError(KafkaError):
    """The record's timestamp lies outside the bounds that the topic accepts."""

    code = 32
    name = "INVALID_TIMESTAMP"


class UnsupportedSaslMechanismError(KafkaError):
    """The broker does not offer this SASL mechanism."""

    code = 33
    name = "UNSUPPORTED_SASL_MECHANISM"


class IllegalSaslStateError(KafkaError):
    """The request does not fit the state of the SASL exchange."""

    code = 34
    name = "ILLEGAL_SASL_STATE"


class UnsupportedVersionError(KafkaError):
    """This version of the API is not supported."""

    code = 35
    name = "UNSUPPORTED_VERSION"


class TopicAlreadyExistsError(KafkaError):
    """A topic of this name exists already."""

    code = 36
    name = "TOPIC_ALREADY_EXISTS"


class InvalidPartitionsError(KafkaError):
    """The number of partitions is not valid."""

    code = 37
    name = "INVALID_PARTITIONS"


class InvalidReplicationFactorError(KafkaError):
    """The replication factor is below 1 or above the number of available brokers."""

    code = 38
    name = "INVALID_REPLICATION_FACTOR"


class InvalidReplicaAssignmentError(KafkaError):
    """The replica assignment is not valid."""

    code = 39
    name = "INVALID_REPLICA_ASSIGNMENT"


class InvalidConfigError(KafkaError):
    """The configuration is not valid."""

    code = 40
    name = "INVALID_CONFIG"


class NotControllerError(KafkaError):
    """This broker is not the controller."""

    code = 41
    name = "NOT_CONTROLLER"
    retriable = True
    refresh_metadata = True


class InvalidRequestError(KafkaError):
    """The request is malformed or contradicts itself."""

    code = 42
    name = "INVALID_REQUEST"


class UnsupportedForMessageFormatError(KafkaError):
    """The log's message format does not support the request."""

    code = 43
    name = "UNSUPPORTED_FOR_MESSAGE_FORMAT"


class PolicyViolationError(KafkaError):
    """The request violates a policy of the cluster."""

    code = 44
    name = "POLICY_VIOLATION"


class OutOfOrderSequenceNumberError(KafkaError):
    """The batch's sequence number does not follow the producer's last one."""

    code = 45
    name = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class DuplicateSequenceNumberError(KafkaError):
    """The batch's sequence number was written before."""

    code = 46
    name = "DUPLICATE_SEQUENCE_NUMBER"


class InvalidProducerEpochError(KafkaError):
    """The producer's epoch is older than the one the broker knows."""

    code = 47
    name = "INVALID_PRODUCER_EPOCH"


class InvalidTxnStateError(KafkaError):
    """The transactional operation does not fit the transaction's state."""

    code = 48
    name = "INVALID_TXN_STATE"


class InvalidProducerIdMappingError(KafkaError):
    """The producer id is not the one assigned to the transactional id."""

    code = 49
    name = "INVALID_PRODUCER_ID_MAPPING"


class InvalidTransactionTimeoutError(KafkaError):
    """The transaction timeout is above transaction.max.timeout.ms."""

    code = 50
    name = "INVALID_TRANSACTION_TIMEOUT"


class ConcurrentTransactionsError(KafkaError):
    """The transaction is being changed by another operation."""

    code = 51
    name = "CONCURRENT_TRANSACTIONS"
    retriable = True


class TransactionCoordinatorFencedError(KafkaError):
    """A newer transaction coordinator has taken over."""

    code = 52
    name = "TRANSACTION_COORDINATOR_FENCED"


class TransactionalIdAuthorizationFailedError(KafkaError):
    """Access to the transactional id is denied."""

    code = 53
    name = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


class SecurityDisabledError(KafkaError):
    """Security features are disabled on the broker."""

    code = 54
    name = "SECURITY_DISABLED"


class OperationNotAttemptedError(KafkaError):
    """The broker did not attempt this part of the request because another part failed."""

    code = 55
    name = "OPERATION_NOT_ATTEMPTED"


class KafkaStorageError(KafkaError):
    """The log directory failed while the broker used it."""

    code = 56
    name = "KAFKA_STORAGE_ERROR"
    retriable = True
    refresh_metadata = True


class LogDirNotFoundError(KafkaError):
    """The broker has no such log directory."""

    code = 57
    name = "LOG_DIR_NOT_FOUND"


class SaslAuthenticationFailedError(KafkaError):
    """SASL authentication failed."""

    code = 58
    name = "SASL_AUTHENTICATION_FAILED"


class UnknownProducerIdError(KafkaError):
    """The broker no longer holds state for this producer id."""

    code = 59
    name = "UNKNOWN_PRODUCER_ID"


class ReassignmentInProgressError(KafkaError):
    """A reassignment of the partition is in progress."""

    code = 60
    name = "REASSIGNMENT_IN_PROGRESS"


class DelegationTokenAuthDisabledError(KafkaError):
    """Delegation tokens are disabled."""

    code = 61
    name = "DELEGATION_TOKEN_AUTH_DISABLED"


class DelegationTokenNotFoundError(KafkaError):
    """The broker does not know the delegation token."""

    code = 62
    name = "DELEGATION_TOKEN_NOT_FOUND"


class DelegationTokenOwnerMismatchError(KafkaError):
    """The delegation token belongs to another principal."""

    code = 63
    name = "DELEGATION_TOKEN_OWNER_MISMATCH"


class DelegationTokenRequestNotAllowedError(KafkaError):
    """Delegation token requests are not allowed on this connection."""

    code = 64
    name = "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"


class DelegationTokenAuthorizationFailedError(KafkaError):
    """Access to delegation tokens is denied."""

    code = 65
    name = "DELEGATION_TOKEN_AUTHORIZATION_FAILED"


class DelegationTokenExpiredError(KafkaError):
    """The delegation token has expired."""

    code = 66
    name = "DELEGATION_TOKEN_EXPIRED"


class InvalidPrincipalTypeError(KafkaError):
    """The principal type is not supported."""

    code = 67
    name = "INVALID_PRINCIPAL_TYPE"


class NonEmptyGroupError(KafkaError):
    """The group still has members."""

    code = 68
    name = "NON_EMPTY_GROUP"


class GroupIdNotFoundError(KafkaError):
    """There is no such group."""

    code = 69
    name = "GROUP_ID_NOT_FOUND"


class FetchSessionIdNotFoundError(KafkaError):
    """The broker does not know the fetch session."""

    code = 70
    name = "FETCH_SESSION_ID_NOT_FOUND"
    retriable = True


class InvalidFetchSessionEpochError(KafkaError):
    """The fetch session's epoch is not the expected one."""

    code = 71
    name = "INVALID_FETCH_SESSION_EPOCH"
    retriable = True


class ListenerNotFoundError(KafkaError):
    """The leader has no listener of the name on which the request came."""

    code = 72
    name = "LISTENER_NOT_FOUND"
    retriable = True
    refresh_metadata = True


class TopicDeletionDisabledError(KafkaError):
    """Topic deletion is disabled (delete.topic.enable)."""

    code = 73
    name = "TOPIC_DELETION_DISABLED"


class FencedLeaderEpochError(KafkaError):
    """The request's leader epoch is older than the broker's."""

    code = 74
    name = "FENCED_LEADER_EPOCH"
    retriable = True
    refresh_metadata = True


class UnknownLeaderEpochError(KafkaError):
    """The request's leader epoch is newer than the broker's."""

    code = 75
    name = "UNKNOWN_LEADER_EPOCH"
    retriable = True
    refresh_metadata = True


class UnsupportedCompressionTypeError(KafkaError):
    """The compression type is not supported for this request version."""

    code = 76
    name = "UNSUPPORTED_COMPRESSION_TYPE"


class StaleBrokerEpochError(KafkaError):
    """The broker's epoch has changed."""

    code = 77
    name = "STALE_BROKER_EPOCH"


class OffsetNotAvailableError(KafkaError):
    """The leader's high watermark has not caught up since its election."""

    code = 78
    name = "OFFSET_NOT_AVAILABLE"
    retriable = True
    refresh_metadata = True


class MemberIdRequiredError(KafkaError):
    """The member has to rejoin with the member id that the coordinator gave it."""

    code = 79
    name = "MEMBER_ID_REQUIRED"


class PreferredLeaderNotAvailableError(KafkaError):
    """The preferred leader is not available."""

    code = 80
    name = "PREFERRED_LEADER_NOT_AVAILABLE"
    retriable = True
    refresh_metadata = True


class GroupMaxSizeReachedError(KafkaError):
    """The group has as many members as group.max.size allows."""

    code = 81
    name = "GROUP_MAX_SIZE_REACHED"


class FencedInstanceIdError(KafkaError):
    """Another member has registered the same group.instance.id."""

    code = 82
    name = "FENCED_INSTANCE_ID"


class EligibleLeadersNotAvailableError(KafkaError):
    """No eligible leader is available."""

    code = 83
    name = "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    retriable = True
    refresh_metadata = True


class ElectionNotNeededError(KafkaError):
    """The partition needs no leader election."""

    code = 84
    name = "ELECTION_NOT_NEEDED"
    retriable = True
    refresh_metadata = True


class NoReassignmentInProgressError(KafkaError):
    """No reassignment of the partition is in progress."""

    code = 85
    name = "NO_REASSIGNMENT_IN_PROGRESS"


class GroupSubscribedToTopicError(KafkaError):
    """The group is subscribed to the topic, so its offsets cannot be deleted."""

    code = 86
    name = "GROUP_SUBSCRIBED_TO_TOPIC"


class InvalidRecordError(KafkaError):
    """The broker refused the record."""

    code = 87
    name = "INVALID_RECORD"


class UnstableOffsetCommitError(KafkaError):
    """Offsets of an open transaction are still to be decided."""

    code = 88
    name = "UNSTABLE_OFFSET_COMMIT"
    retriable = True


class ThrottlingQuotaExceededError(KafkaError):
    """The throttling quota is exceeded."""

    code = 89
    name = "THROTTLING_QUOTA_EXCEEDED"
    retriable = True


class ProducerFencedError(KafkaError):
    """A newer producer uses the same transactional id."""

    code = 90
    name = "PRODUCER_FENCED"


class ResourceNotFoundError(KafkaError):
    """The request names a resource that does not exist."""

    code = 91
    name = "RESOURCE_NOT_FOUND"


class DuplicateResourceError(KafkaError):
    """The request names the same resource twice."""

    code = 92
    name = "DUPLICATE_RESOURCE"


class UnacceptableCredentialError(KafkaError):
    """The credential does not meet the requirements."""

    code = 93
    name = "UNACCEPTABLE_CREDENTIAL"


class InconsistentVoterSetError(KafkaError):
    """The voter set differs from the expected one."""

    code = 94
    name = "INCONSISTENT_VOTER_SET"


class InvalidUpdateVersionError(KafkaError):
    """The update version is not valid."""

    code = 95
    name = "INVALID_UPDATE_VERSION"


class FeatureUpdateFailedError(KafkaError):
    """The feature could not be updated."""

    code = 96
    name = "FEATURE_UPDATE_FAILED"


class PrincipalDeserializationFailureError(KafkaError):
    """The forwarded principal could not be read."""

    code = 97
    name = "PRINCIPAL_DESERIALIZATION_FAILURE"


class SnapshotNotFoundError(KafkaError):
    """There is no such snapshot."""

    code = 98
    name = "SNAPSHOT_NOT_FOUND"


class PositionOutOfRangeError(KafkaError):
    """The position lies outside the snapshot."""

    code = 99
    name = "POSITION_OUT_OF_RANGE"


class UnknownTopicIdError(KafkaError):
    """The broker hosts no topic of this id."""

    code = 100
    name = "UNKNOWN_TOPIC_ID"
    retriable = True
    refresh_metadata = True


class DuplicateBrokerRegistrationError(KafkaError):
    """A broker of this id is registered already."""

    code = 101
    name = "DUPLICATE_BROKER_REGISTRATION"


class BrokerIdNotRegisteredError(KafkaError):
    """The broker id is not registered."""

    code = 102
    name = "BROKER_ID_NOT_REGISTERED"


class InconsistentTopicIdError(KafkaError):
    """The topic's id in the request differs from the broker's."""

    code = 103
    name = "INCONSISTENT_TOPIC_ID"
    retriable = True
    refresh_metadata = True


class InconsistentClusterIdError(KafkaError):
    """The cluster id differs from the broker's."""

    code = 104
    name = "INCONSISTENT_CLUSTER_ID"


class TransactionalIdNotFoundError(KafkaError):
    """There is no such transactional id."""

    code = 105
    name = "TRANSACTIONAL_ID_NOT_FOUND"


class FetchSessionTopicIdError(KafkaError):
    """Topic ids were used in some requests of the fetch session and not in others."""

    code = 106
    name = "FETCH_SESSION_TOPIC_ID_ERROR"
    retriable = True


class IneligibleReplicaError(KafkaError):
    """The replica may not join the in-sync replicas."""

    code = 107
    name = "INELIGIBLE_REPLICA"


class NewLeaderElectedError(KafkaError):
    """The partition change led to a new leader."""

    code = 108
    name = "NEW_LEADER_ELECTED"


class OffsetMovedToTieredStorageError(KafkaError):
    """The offset has moved to tiered storage."""

    code = 109
    name = "OFFSET_MOVED_TO_TIERED_STORAGE"


class FencedMemberEpochError(KafkaError):
    """The coordinator has fenced this member's epoch."""

    code = 110
    name = "FENCED_MEMBER_EPOCH"


class UnreleasedInstanceIdError(KafkaError):
    """The group.instance.id is still held by another member."""

    code = 111
    name = "UNRELEASED_INSTANCE_ID"


class UnsupportedAssignorError(KafkaError):
    """The group coordinator does not offer this assignor."""

    code = 112
    name = "UNSUPPORTED_ASSIGNOR"


class StaleMemberEpochError(KafkaError):
    """The member's epoch is not current, so it has to heartbeat first."""

    code = 113
    name = "STALE_MEMBER_EPOCH"


class MismatchedEndpointTypeError(KafkaError):
    """The request went to an endpoint of the wrong type."""

    code = 114
    name = "MISMATCHED_ENDPOINT_TYPE"


class UnsupportedEndpointTypeError(KafkaError):
    """The endpoint type is not supported."""

    code = 115
    name = "UNSUPPORTED_ENDPOINT_TYPE"


class UnknownControllerIdError(KafkaError):
    """The controller id is not known."""

    code = 116
    name = "UNKNOWN_CONTROLLER_ID"


class UnknownSubscriptionIdError(KafkaError):
    """The telemetry subscription is not current."""

    code = 117
    name = "UNKNOWN_SUBSCRIPTION_ID"


class TelemetryTooLargeError(KafkaError):
    """The telemetry push is too large."""

    code = 118
    name = "TELEMETRY_TOO_LARGE"


class InvalidRegistrationError(KafkaError):
    """The broker registration is not valid."""

    code = 119
    name = "INVALID_REGISTRATION"


class TransactionAbortableError(KafkaError):
    """The transaction met an error and has to be aborted."""

    code = 120
    name = "TRANSACTION_ABORTABLE"


class InvalidRecordStateError(KafkaError):
    """The share group's record is in the wrong state for the acknowledgement."""

    code = 121
    name = "INVALID_RECORD_STATE"


class ShareSessionNotFoundError(KafkaError):
    """The broker does not know the share session."""

    code = 122
    name = "SHARE_SESSION_NOT_FOUND"
    retriable = True


class InvalidShareSessionEpochError(KafkaError):
    """The share session's epoch is not the expected one."""

    code = 123
    name = "INVALID_SHARE_SESSION_EPOCH"
    retriable = True


class FencedStateEpochError(KafkaError):
    """The share coordinator has fenced this state epoch."""

    code = 124
    name = "FENCED_STATE_EPOCH"


class InvalidVoterKeyError(KafkaError):
    """The voter key does not fit the receiving replica."""

    code = 125
    name = "INVALID_VOTER_KEY"


class DuplicateVoterError(KafkaError):
    """The voter is already part of the voter set."""

    code = 126
    name = "DUPLICATE_VOTER"


class VoterNotFoundError(KafkaError):
    """The voter is not part of the voter set."""

    code = 127
    name = "VOTER_NOT_FOUND"


class InvalidRegularExpressionError(KafkaError):
    """The regular expression is not valid."""

    code = 128
    name = "INVALID_REGULAR_EXPRESSION"


class RebootstrapRequiredError(KafkaError):
    """The client has to bootstrap again."""

    code = 129
    name = "REBOOTSTRAP_REQUIRED"


class StreamsInvalidTopologyError(KafkaError):
    """The topology is not valid."""

    code = 130
    name = "STREAMS_INVALID_TOPOLOGY"


class StreamsInvalidTopologyEpochError(KafkaError):
    """The topology epoch is not valid."""

    code = 131
    name = "STREAMS_INVALID_TOPOLOGY_EPOCH"


class StreamsTopologyFencedError(KafkaError):
    """The topology epoch is outdated."""

    code = 132
    name = "STREAMS_TOPOLOGY_FENCED"


class ShareSessionLimitReachedError(KafkaError):
    """The broker holds as many share sessions as it allows."""

    code = 133
    name = "SHARE_SESSION_LIMIT_REACHED"
    retriable = True


# Errors without a number that are kinds of those above.


class LogTruncationError(OffsetOutOfRangeError):
    """The log was truncated before positions of this consumer, and auto.offset.reset is none."""

    code = None  # type: ignore[assignment]
    name = ""

    def __init__(self, divergent: Mapping[Any, Any]) -> None:
        super().__init__(
            "the log was truncated: "
            + ", ".join(
                f"{tp} diverges at {'an unknown offset' if at is None else at.offset}" for tp, at in divergent.items()
            )
        )
        self.divergent_offsets = dict(divergent)
        """By partition: OffsetAndMetadata of the first offset that differs; None where it is not known."""


NONE = 0
"""The code of success."""

BY_CODE: dict[int, type[KafkaError]] = {
    error.code: error
    for error in globals().copy().values()
    if isinstance(error, type) and issubclass(error, KafkaError) and error.code is not None and "code" in vars(error)
}
"""Every error that has a number, by its number."""


def for_code(code: int) -> type[KafkaError]:
    """The error class of a non-zero code; an unknown one is UnknownServerError, as in Kafka."""
    return BY_CODE.get(code, UnknownServerError)


def code_of(error: BaseException) -> int:
    """The number that tells a client of this error; UNKNOWN_SERVER_ERROR for what has none."""
    code = getattr(error, "code", None) if isinstance(error, KafkaError) else None
    return UnknownServerError.code if code is None else code


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

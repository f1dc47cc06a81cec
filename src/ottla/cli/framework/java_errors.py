"""Names of Java's exception classes, which Kafka's tools print."""

from __future__ import annotations

from typing import Final

COMMON: Final = "org.apache.kafka.common.errors."
OTHERS: Final = {
    "BufferExhausted": "org.apache.kafka.clients.producer.BufferExhaustedException",
    "CommitFailed": "org.apache.kafka.clients.consumer.CommitFailedException",
    "RetriableCommitFailed": "org.apache.kafka.clients.consumer.RetriableCommitFailedException",
    "Configuration": "org.apache.kafka.common.config.ConfigException",
    "IllegalState": "java.lang.IllegalStateException",
    "InvalidRecord": "org.apache.kafka.common.InvalidRecordException",
    "Kafka": "org.apache.kafka.common.KafkaException",
    "BrokerConnection": f"{COMMON}DisconnectException",
    "ClusterAuthorizationFailed": f"{COMMON}ClusterAuthorizationException",
    "CorruptMessage": f"{COMMON}CorruptRecordException",
    "DelegationTokenAuthDisabled": f"{COMMON}DelegationTokenDisabledException",
    "DelegationTokenAuthorizationFailed": f"{COMMON}DelegationTokenAuthorizationException",
    "DelegationTokenRequestNotAllowed": f"{COMMON}UnsupportedByAuthenticationException",
    "DuplicateSequenceNumber": f"{COMMON}DuplicateSequenceException",
    "GroupAuthorizationFailed": f"{COMMON}GroupAuthorizationException",
    "InvalidConfig": f"{COMMON}InvalidConfigurationException",
    "InvalidProducerIdMapping": f"{COMMON}InvalidPidMappingException",
    "InvalidRegularExpression": f"{COMMON}InvalidRegularExpression",
    "InvalidTransactionTimeout": f"{COMMON}InvalidTxnTimeoutException",
    "KafkaTimeout": f"{COMMON}TimeoutException",
    "MessageTooLarge": f"{COMMON}RecordTooLargeException",
    "NonEmptyGroup": f"{COMMON}GroupNotEmptyException",
    "OffsetMetadataTooLarge": f"{COMMON}OffsetMetadataTooLarge",
    "OutOfOrderSequenceNumber": f"{COMMON}OutOfOrderSequenceException",
    "PrincipalDeserializationFailure": f"{COMMON}PrincipalDeserializationException",
    "RecordListTooLarge": f"{COMMON}RecordBatchTooLargeException",
    "RequestTimedOut": f"{COMMON}TimeoutException",
    "SaslAuthenticationFailed": f"{COMMON}SaslAuthenticationException",
    "StaleControllerEpoch": f"{COMMON}ControllerMovedException",
    "TopicAlreadyExists": f"{COMMON}TopicExistsException",
    "TopicAuthorizationFailed": f"{COMMON}TopicAuthorizationException",
    "TransactionalIdAuthorizationFailed": f"{COMMON}TransactionalIdAuthorizationException",
}
"""Full names of Java classes by the names of Ottla's error classes without the suffix `Error`. Other errors follow the
rule: COMMON, the name and `Exception`.
"""


def java_class(error: BaseException) -> str:
    """Return the full name of the Java exception class for an error. For errors that are not Kafka's, there may be no
    such class.
    """
    name = type(error).__name__.removesuffix("Error")
    return OTHERS.get(name, f"{COMMON}{name}Exception")

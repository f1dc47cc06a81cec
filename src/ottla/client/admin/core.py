"""The calls of the admin client, as coroutines. Both the synchronous and the asynchronous client use them."""

from __future__ import annotations

from ottla.client.admin.cluster import ClusterAdmin
from ottla.client.admin.configs import ConfigsAdmin
from ottla.client.admin.groups.streams_groups import StreamsGroupsAdmin
from ottla.client.admin.log_dirs import LogDirsAdmin
from ottla.client.admin.quorum import QuorumAdmin
from ottla.client.admin.quotas import QuotasAdmin
from ottla.client.admin.replica_records import ReplicaRecordsAdmin
from ottla.client.admin.security.acls import AclsAdmin
from ottla.client.admin.security.delegation_tokens import TokensAdmin
from ottla.client.admin.security.scram import ScramAdmin
from ottla.client.admin.topics.delete_records import RecordsAdmin
from ottla.client.admin.topics.partitions import PartitionsAdmin
from ottla.client.admin.topics.topic_partitions import TopicPartitionsAdmin
from ottla.client.admin.topics.topics import TopicsAdmin
from ottla.client.admin.transactions import TransactionsAdmin


class AdminCore(
    TopicsAdmin,
    TopicPartitionsAdmin,
    RecordsAdmin,
    ReplicaRecordsAdmin,
    PartitionsAdmin,
    ConfigsAdmin,
    StreamsGroupsAdmin,
    TransactionsAdmin,
    AclsAdmin,
    QuotasAdmin,
    ScramAdmin,
    TokensAdmin,
    ClusterAdmin,
    LogDirsAdmin,
    QuorumAdmin,
):
    """Manages a cluster. Every call to brokers has a time limit: `timeout_ms`, by default default.api.timeout.ms."""

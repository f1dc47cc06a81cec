"""The admin client's work, as coroutines, from all subjects. Both faces are made of it: `admin` and `ottla.aio`."""

from __future__ import annotations

from ottla.client.admin_acls import AclsAdmin
from ottla.client.admin_cluster import ClusterAdmin
from ottla.client.admin_configs import ConfigsAdmin
from ottla.client.admin_group_offsets import GroupOffsetsAdmin
from ottla.client.admin_groups import GroupsAdmin
from ottla.client.admin_log_dirs import LogDirsAdmin
from ottla.client.admin_partitions import PartitionsAdmin
from ottla.client.admin_quorum import QuorumAdmin
from ottla.client.admin_quotas import QuotasAdmin
from ottla.client.admin_records import RecordsAdmin
from ottla.client.admin_scram import ScramAdmin
from ottla.client.admin_tokens import TokensAdmin
from ottla.client.admin_topic_pages import TopicPagesAdmin
from ottla.client.admin_topics import TopicsAdmin
from ottla.client.admin_transactions import TransactionsAdmin


class AdminCore(
    TopicsAdmin,
    TopicPagesAdmin,
    RecordsAdmin,
    PartitionsAdmin,
    ConfigsAdmin,
    GroupsAdmin,
    GroupOffsetsAdmin,
    TransactionsAdmin,
    AclsAdmin,
    QuotasAdmin,
    ScramAdmin,
    TokensAdmin,
    ClusterAdmin,
    LogDirsAdmin,
    QuorumAdmin,
):
    """Manages a cluster. Every call has a time limit (default.api.timeout.ms) and raises what the brokers answer."""

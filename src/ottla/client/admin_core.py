"""The admin client's work, as coroutines, from all subjects. Both faces are made of it: `admin` and `ottla.aio`."""

from __future__ import annotations

from ottla.client.admin_acls import AclsAdmin
from ottla.client.admin_cluster import ClusterAdmin
from ottla.client.admin_configs import ConfigsAdmin
from ottla.client.admin_group_offsets import GroupOffsetsAdmin
from ottla.client.admin_groups import GroupsAdmin
from ottla.client.admin_partitions import PartitionsAdmin
from ottla.client.admin_topics import TopicsAdmin
from ottla.client.admin_transactions import TransactionsAdmin
from ottla.client.admin_users import UsersAdmin


class AdminCore(
    TopicsAdmin,
    PartitionsAdmin,
    ConfigsAdmin,
    GroupsAdmin,
    GroupOffsetsAdmin,
    TransactionsAdmin,
    AclsAdmin,
    UsersAdmin,
    ClusterAdmin,
):
    """Manages a cluster. Every call has a time limit (default.api.timeout.ms) and raises what the brokers answer."""

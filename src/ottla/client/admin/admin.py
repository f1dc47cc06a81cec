"""`KafkaAdminClient`: the synchronous API over `AdminCore`. Thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from ottla.client.admin.core import AdminCore
from ottla.client.core.io_thread import IoThread
from ottla.client.core.synchronous import SynchronousClient, synchronous
from ottla.config.admin import AdminConfig

if TYPE_CHECKING:
    from ottla.client.options.admin import AdminOptions

STOP_SECONDS: Final = 10.0


class KafkaAdminClient(SynchronousClient[AdminCore]):
    """Manages a cluster: for example its topics, configs, groups, offsets, transactions, ACLs and users.

        with KafkaAdminClient(bootstrap_servers="localhost:9092") as admin:
            admin.create_topics([NewTopic("topic", num_partitions=3, replication_factor=1)])

    Options are keywords, or one mapping with Kafka's names. Calls raise the errors of brokers, and KafkaTimeoutError
    after `timeout_ms` (by default default.api.timeout.ms). Most calls about many resources apply to each of them
    separately: if some fail, the call raises the first failure, and the others still take effect. Most of these calls
    take a dictionary `errors`: instead of raising the failures, they put them into it by key, such as the resource.
    """

    def __init__(self, configs: Mapping[str, Any] | None = None, **options: Unpack[AdminOptions]) -> None:
        self.config: AdminConfig
        if configs is not None:
            self.config = AdminConfig.from_kafka(configs, **options)
        else:
            self.config = AdminConfig.from_keywords(**options)
        self._asynchronous = AdminCore(self.config)
        self._io = IoThread(f"ottla-{self._asynchronous.client_id}")
        self._close_lock = threading.Lock()
        self._closed = False
        self._io.start()
        self._io.run(self._asynchronous.start())

    def __repr__(self) -> str:
        return f"<KafkaAdminClient {self._asynchronous.client_id}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def metrics(self, raw: bool = False) -> dict[Any, Any]:
        """Return the client's metrics: `{group: {name: value}}`, or with `raw` `{MetricName: KafkaMetric}`."""
        return self._asynchronous.metrics(raw)

    def close(self, timeout: float | None = None) -> None:
        """Close the connections within `timeout` seconds (None: 10), otherwise raise KafkaTimeoutError. Pending calls
        fail. May be called repeatedly.
        """
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
        try:
            if not self._io.forked:
                self._io.run(self._asynchronous.stop(), STOP_SECONDS if timeout is None else timeout)
        finally:
            self._io.stop()

    # Topics

    create_topics: Final = synchronous(AdminCore.create_topics)
    wait_for_topics: Final = synchronous(AdminCore.wait_for_topics)
    delete_topics: Final = synchronous(AdminCore.delete_topics)
    create_partitions: Final = synchronous(AdminCore.create_partitions)
    list_topics: Final = synchronous(AdminCore.list_topics)
    list_topic_listings: Final = synchronous(AdminCore.list_topic_listings)
    describe_topics: Final = synchronous(AdminCore.describe_topics)
    describe_topic_partitions: Final = synchronous(AdminCore.describe_topic_partitions)
    delete_records: Final = synchronous(AdminCore.delete_records)

    # Leaders and replicas

    elect_leaders: Final = synchronous(AdminCore.elect_leaders)
    alter_partition_reassignments: Final = synchronous(AdminCore.alter_partition_reassignments)
    list_partition_reassignments: Final = synchronous(AdminCore.list_partition_reassignments)

    # Configs

    describe_configs: Final = synchronous(AdminCore.describe_configs)
    alter_configs: Final = synchronous(AdminCore.alter_configs)
    incremental_alter_configs: Final = synchronous(AdminCore.incremental_alter_configs)
    reset_configs: Final = synchronous(AdminCore.reset_configs)
    list_config_resources: Final = synchronous(AdminCore.list_config_resources)
    list_client_metrics_resources: Final = synchronous(AdminCore.list_client_metrics_resources)

    # Groups

    list_groups: Final = synchronous(AdminCore.list_groups)
    list_consumer_groups: Final = synchronous(AdminCore.list_consumer_groups)
    list_share_groups: Final = synchronous(AdminCore.list_share_groups)
    list_streams_groups: Final = synchronous(AdminCore.list_streams_groups)
    describe_consumer_groups: Final = synchronous(AdminCore.describe_consumer_groups)
    describe_groups: Final = synchronous(AdminCore.describe_groups)
    describe_classic_groups: Final = synchronous(AdminCore.describe_classic_groups)
    describe_share_groups: Final = synchronous(AdminCore.describe_share_groups)
    describe_streams_groups: Final = synchronous(AdminCore.describe_streams_groups)
    delete_consumer_groups: Final = synchronous(AdminCore.delete_consumer_groups)
    delete_groups: Final = synchronous(AdminCore.delete_groups)
    delete_share_groups: Final = synchronous(AdminCore.delete_share_groups)
    delete_streams_groups: Final = synchronous(AdminCore.delete_streams_groups)
    remove_members_from_consumer_group: Final = synchronous(AdminCore.remove_members_from_consumer_group)
    remove_group_members: Final = synchronous(AdminCore.remove_group_members)

    # Offsets of groups

    list_consumer_group_offsets: Final = synchronous(AdminCore.list_consumer_group_offsets)
    list_group_offsets: Final = synchronous(AdminCore.list_group_offsets)
    alter_consumer_group_offsets: Final = synchronous(AdminCore.alter_consumer_group_offsets)
    alter_group_offsets: Final = synchronous(AdminCore.alter_group_offsets)
    reset_group_offsets: Final = synchronous(AdminCore.reset_group_offsets)
    delete_consumer_group_offsets: Final = synchronous(AdminCore.delete_consumer_group_offsets)
    delete_group_offsets: Final = synchronous(AdminCore.delete_group_offsets)
    describe_share_group_offsets: Final = synchronous(AdminCore.describe_share_group_offsets)
    list_share_group_offsets: Final = synchronous(AdminCore.list_share_group_offsets)
    alter_share_group_offsets: Final = synchronous(AdminCore.alter_share_group_offsets)
    delete_share_group_offsets: Final = synchronous(AdminCore.delete_share_group_offsets)

    list_streams_group_offsets: Final = synchronous(AdminCore.list_streams_group_offsets)
    alter_streams_group_offsets: Final = synchronous(AdminCore.alter_streams_group_offsets)
    delete_streams_group_offsets: Final = synchronous(AdminCore.delete_streams_group_offsets)

    # Offsets of partitions

    list_offsets: Final = synchronous(AdminCore.list_offsets)
    list_partition_offsets: Final = synchronous(AdminCore.list_partition_offsets)

    # Transactions

    list_transactions: Final = synchronous(AdminCore.list_transactions)
    describe_transactions: Final = synchronous(AdminCore.describe_transactions)
    describe_producers: Final = synchronous(AdminCore.describe_producers)
    abort_transaction: Final = synchronous(AdminCore.abort_transaction)
    fence_producers: Final = synchronous(AdminCore.fence_producers)
    force_terminate_transaction: Final = synchronous(AdminCore.force_terminate_transaction)
    find_hanging_transactions: Final = synchronous(AdminCore.find_hanging_transactions)

    # ACLs

    describe_acls: Final = synchronous(AdminCore.describe_acls)
    create_acls: Final = synchronous(AdminCore.create_acls)
    delete_acls: Final = synchronous(AdminCore.delete_acls)

    # Quotas, credentials, tokens

    describe_client_quotas: Final = synchronous(AdminCore.describe_client_quotas)
    alter_client_quotas: Final = synchronous(AdminCore.alter_client_quotas)
    describe_user_scram_credentials: Final = synchronous(AdminCore.describe_user_scram_credentials)
    alter_user_scram_credentials: Final = synchronous(AdminCore.alter_user_scram_credentials)
    create_delegation_token: Final = synchronous(AdminCore.create_delegation_token)
    renew_delegation_token: Final = synchronous(AdminCore.renew_delegation_token)
    expire_delegation_token: Final = synchronous(AdminCore.expire_delegation_token)
    describe_delegation_token: Final = synchronous(AdminCore.describe_delegation_token)

    # The cluster

    describe_cluster: Final = synchronous(AdminCore.describe_cluster)
    unregister_broker: Final = synchronous(AdminCore.unregister_broker)
    describe_features: Final = synchronous(AdminCore.describe_features)
    update_features: Final = synchronous(AdminCore.update_features)
    api_versions: Final = synchronous(AdminCore.api_versions)
    describe_log_dirs: Final = synchronous(AdminCore.describe_log_dirs)
    describe_replica_log_dirs: Final = synchronous(AdminCore.describe_replica_log_dirs)
    alter_replica_log_dirs: Final = synchronous(AdminCore.alter_replica_log_dirs)
    fetch_replicas: Final = synchronous(AdminCore.fetch_replicas)
    describe_metadata_quorum: Final = synchronous(AdminCore.describe_metadata_quorum)
    add_raft_voter: Final = synchronous(AdminCore.add_raft_voter)
    remove_raft_voter: Final = synchronous(AdminCore.remove_raft_voter)

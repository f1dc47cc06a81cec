"""`KafkaAdminClient`: the synchronous API over `AdminCore`. Thread-safe."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from ottla.client.admin.core import AdminCore
from ottla.client.core.io_thread import IoThread
from ottla.config.admin import AdminConfig
from ottla.errors import IllegalStateError

P = ParamSpec("P")
T = TypeVar("T")

STOP_SECONDS: Final = 10.0


def _synchronous(
    method: Callable[Concatenate[AdminCore, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[KafkaAdminClient, P], T]:
    """Return a coroutine method of the core as a method that waits: same name, parameters and docstring."""

    @functools.wraps(method)
    def call(self: KafkaAdminClient, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return self._io.run(method(self._core, *args, **kwargs))
        except asyncio.CancelledError:  # by close() in another thread, during a backoff
            raise IllegalStateError(f"{self} was closed") from None

    return call  # type: ignore[return-value]  # mypy takes the result of wraps() for a protocol of its own


class KafkaAdminClient:
    """Manages topics, configs, groups, offsets, transactions, ACLs and users of a cluster.

        with KafkaAdminClient(bootstrap_servers="localhost:9092") as admin:
            admin.create_topics([NewTopic("topic", num_partitions=3, replication_factor=1)])

    Options are keywords, or one mapping with Kafka's names. Calls raise the errors of brokers, and KafkaTimeoutError
    after `timeout_ms` (by default default.api.timeout.ms). A call about many resources raises the first failure; the
    others take effect. With a dictionary `errors`, it puts failures there by resource and returns the successes.
    """

    def __init__(self, configs: Mapping[str, Any] | None = None, **options: Any) -> None:
        if configs is not None:
            self.config = AdminConfig.from_kafka(configs, **options)
        else:
            self.config = AdminConfig.from_keywords(**options)
        self._core = AdminCore(self.config)
        self._io = IoThread(f"ottla-{self._core.client_id}")
        self._close_lock = threading.Lock()
        self._closed = False
        self._io.start()
        self._io.run(self._core.start())

    def __repr__(self) -> str:
        return f"<KafkaAdminClient {self._core.client_id}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def metrics(self, raw: bool = False) -> dict[Any, Any]:
        """Return the client's metrics: `{group: {name: value}}`, or with `raw` MetricName → KafkaMetric."""
        return self._core.metrics(raw)

    def close(self, timeout: float | None = None) -> None:
        """Close the connections within `timeout` seconds. Pending calls fail. May be called repeatedly."""
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
        try:
            if not self._io.forked:
                self._io.run(self._core.stop(), STOP_SECONDS if timeout is None else timeout)
        finally:
            self._io.stop()

    # Topics

    create_topics = _synchronous(AdminCore.create_topics)
    wait_for_topics = _synchronous(AdminCore.wait_for_topics)
    delete_topics = _synchronous(AdminCore.delete_topics)
    create_partitions = _synchronous(AdminCore.create_partitions)
    list_topics = _synchronous(AdminCore.list_topics)
    list_topic_listings = _synchronous(AdminCore.list_topic_listings)
    describe_topics = _synchronous(AdminCore.describe_topics)
    describe_topic_partitions = _synchronous(AdminCore.describe_topic_partitions)
    delete_records = _synchronous(AdminCore.delete_records)

    # Leaders and replicas

    elect_leaders = _synchronous(AdminCore.elect_leaders)
    alter_partition_reassignments = _synchronous(AdminCore.alter_partition_reassignments)
    list_partition_reassignments = _synchronous(AdminCore.list_partition_reassignments)

    # Configs

    describe_configs = _synchronous(AdminCore.describe_configs)
    alter_configs = _synchronous(AdminCore.alter_configs)
    incremental_alter_configs = _synchronous(AdminCore.incremental_alter_configs)
    reset_configs = _synchronous(AdminCore.reset_configs)
    list_config_resources = _synchronous(AdminCore.list_config_resources)
    list_client_metrics_resources = _synchronous(AdminCore.list_client_metrics_resources)

    # Groups

    list_groups = _synchronous(AdminCore.list_groups)
    list_consumer_groups = _synchronous(AdminCore.list_consumer_groups)
    list_share_groups = _synchronous(AdminCore.list_share_groups)
    describe_consumer_groups = _synchronous(AdminCore.describe_consumer_groups)
    describe_groups = _synchronous(AdminCore.describe_groups)
    describe_classic_groups = _synchronous(AdminCore.describe_classic_groups)
    describe_share_groups = _synchronous(AdminCore.describe_share_groups)
    delete_consumer_groups = _synchronous(AdminCore.delete_consumer_groups)
    delete_groups = _synchronous(AdminCore.delete_groups)
    delete_share_groups = _synchronous(AdminCore.delete_share_groups)
    remove_members_from_consumer_group = _synchronous(AdminCore.remove_members_from_consumer_group)
    remove_group_members = _synchronous(AdminCore.remove_group_members)

    # Offsets of groups

    list_consumer_group_offsets = _synchronous(AdminCore.list_consumer_group_offsets)
    list_group_offsets = _synchronous(AdminCore.list_group_offsets)
    alter_consumer_group_offsets = _synchronous(AdminCore.alter_consumer_group_offsets)
    alter_group_offsets = _synchronous(AdminCore.alter_group_offsets)
    reset_group_offsets = _synchronous(AdminCore.reset_group_offsets)
    delete_consumer_group_offsets = _synchronous(AdminCore.delete_consumer_group_offsets)
    delete_group_offsets = _synchronous(AdminCore.delete_group_offsets)
    list_share_group_offsets = _synchronous(AdminCore.list_share_group_offsets)
    alter_share_group_offsets = _synchronous(AdminCore.alter_share_group_offsets)
    delete_share_group_offsets = _synchronous(AdminCore.delete_share_group_offsets)

    # Offsets of partitions

    list_offsets = _synchronous(AdminCore.list_offsets)
    list_partition_offsets = _synchronous(AdminCore.list_partition_offsets)

    # Transactions

    list_transactions = _synchronous(AdminCore.list_transactions)
    describe_transactions = _synchronous(AdminCore.describe_transactions)
    describe_producers = _synchronous(AdminCore.describe_producers)
    abort_transaction = _synchronous(AdminCore.abort_transaction)
    fence_producers = _synchronous(AdminCore.fence_producers)
    force_terminate_transaction = _synchronous(AdminCore.force_terminate_transaction)
    find_hanging_transactions = _synchronous(AdminCore.find_hanging_transactions)

    # ACLs

    describe_acls = _synchronous(AdminCore.describe_acls)
    create_acls = _synchronous(AdminCore.create_acls)
    delete_acls = _synchronous(AdminCore.delete_acls)

    # Quotas, credentials, tokens

    describe_client_quotas = _synchronous(AdminCore.describe_client_quotas)
    alter_client_quotas = _synchronous(AdminCore.alter_client_quotas)
    describe_user_scram_credentials = _synchronous(AdminCore.describe_user_scram_credentials)
    alter_user_scram_credentials = _synchronous(AdminCore.alter_user_scram_credentials)
    create_delegation_token = _synchronous(AdminCore.create_delegation_token)
    renew_delegation_token = _synchronous(AdminCore.renew_delegation_token)
    expire_delegation_token = _synchronous(AdminCore.expire_delegation_token)
    describe_delegation_token = _synchronous(AdminCore.describe_delegation_token)

    # The cluster

    describe_cluster = _synchronous(AdminCore.describe_cluster)
    unregister_broker = _synchronous(AdminCore.unregister_broker)
    describe_features = _synchronous(AdminCore.describe_features)
    update_features = _synchronous(AdminCore.update_features)
    api_versions = _synchronous(AdminCore.api_versions)
    describe_log_dirs = _synchronous(AdminCore.describe_log_dirs)
    describe_replica_log_dirs = _synchronous(AdminCore.describe_replica_log_dirs)
    alter_replica_log_dirs = _synchronous(AdminCore.alter_replica_log_dirs)
    describe_metadata_quorum = _synchronous(AdminCore.describe_metadata_quorum)
    add_raft_voter = _synchronous(AdminCore.add_raft_voter)
    remove_raft_voter = _synchronous(AdminCore.remove_raft_voter)

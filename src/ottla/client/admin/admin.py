"""`KafkaAdminClient`: the blocking face of `AdminCore`. Thread-safe."""

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


def _blocking(
    method: Callable[Concatenate[AdminCore, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[KafkaAdminClient, P], T]:
    """A coroutine of the core as a call that waits for it: same name, parameters and description."""

    @functools.wraps(method)
    def call(self: KafkaAdminClient, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return self._io.run(method(self._core, *args, **kwargs))
        except asyncio.CancelledError:  # by close() of another thread, while this call slept between two tries
            raise IllegalStateError(f"{self} was closed") from None

    return call  # type: ignore[return-value]  # mypy takes wraps() for the description of a protocol of its own


class KafkaAdminClient:
    """Manages topics, options, groups, offsets, transactions, access rules and users of a cluster.

        with KafkaAdminClient(bootstrap_servers="localhost:9092") as admin:
            admin.create_topics([NewTopic("topic", num_partitions=3, replication_factor=1)])

    Options as keywords or as one mapping with Kafka's names. Calls raise what the brokers answer, and KafkaTimeoutError
    after `timeout_ms` (default.api.timeout.ms when None). A call about many things raises the first failure, and the
    others have their effect; given a dictionary `errors` it puts failures in there, by what they belong to, and returns
    what went well.
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
        """What the client measures: `{group: {name: value}}`, or (`raw`) MetricName → KafkaMetric."""
        return self._core.metrics(raw)

    def close(self, timeout: float | None = None) -> None:
        """End the connections, within `timeout` seconds. Calls that are going on fail. Twice does no harm."""
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

    create_topics = _blocking(AdminCore.create_topics)
    wait_for_topics = _blocking(AdminCore.wait_for_topics)
    delete_topics = _blocking(AdminCore.delete_topics)
    create_partitions = _blocking(AdminCore.create_partitions)
    list_topics = _blocking(AdminCore.list_topics)
    list_topic_listings = _blocking(AdminCore.list_topic_listings)
    describe_topics = _blocking(AdminCore.describe_topics)
    describe_topic_partitions = _blocking(AdminCore.describe_topic_partitions)
    delete_records = _blocking(AdminCore.delete_records)

    # Leaders and replicas

    elect_leaders = _blocking(AdminCore.elect_leaders)
    alter_partition_reassignments = _blocking(AdminCore.alter_partition_reassignments)
    list_partition_reassignments = _blocking(AdminCore.list_partition_reassignments)

    # Options

    describe_configs = _blocking(AdminCore.describe_configs)
    alter_configs = _blocking(AdminCore.alter_configs)
    incremental_alter_configs = _blocking(AdminCore.incremental_alter_configs)
    reset_configs = _blocking(AdminCore.reset_configs)
    list_config_resources = _blocking(AdminCore.list_config_resources)
    list_client_metrics_resources = _blocking(AdminCore.list_client_metrics_resources)

    # Groups

    list_groups = _blocking(AdminCore.list_groups)
    list_consumer_groups = _blocking(AdminCore.list_consumer_groups)
    list_share_groups = _blocking(AdminCore.list_share_groups)
    describe_consumer_groups = _blocking(AdminCore.describe_consumer_groups)
    describe_groups = _blocking(AdminCore.describe_groups)
    describe_classic_groups = _blocking(AdminCore.describe_classic_groups)
    describe_share_groups = _blocking(AdminCore.describe_share_groups)
    delete_consumer_groups = _blocking(AdminCore.delete_consumer_groups)
    delete_groups = _blocking(AdminCore.delete_groups)
    delete_share_groups = _blocking(AdminCore.delete_share_groups)
    remove_members_from_consumer_group = _blocking(AdminCore.remove_members_from_consumer_group)
    remove_group_members = _blocking(AdminCore.remove_group_members)

    # Offsets of groups

    list_consumer_group_offsets = _blocking(AdminCore.list_consumer_group_offsets)
    list_group_offsets = _blocking(AdminCore.list_group_offsets)
    alter_consumer_group_offsets = _blocking(AdminCore.alter_consumer_group_offsets)
    alter_group_offsets = _blocking(AdminCore.alter_group_offsets)
    reset_group_offsets = _blocking(AdminCore.reset_group_offsets)
    delete_consumer_group_offsets = _blocking(AdminCore.delete_consumer_group_offsets)
    delete_group_offsets = _blocking(AdminCore.delete_group_offsets)
    list_share_group_offsets = _blocking(AdminCore.list_share_group_offsets)
    alter_share_group_offsets = _blocking(AdminCore.alter_share_group_offsets)
    delete_share_group_offsets = _blocking(AdminCore.delete_share_group_offsets)

    # Offsets of partitions

    list_offsets = _blocking(AdminCore.list_offsets)
    list_partition_offsets = _blocking(AdminCore.list_partition_offsets)

    # Transactions

    list_transactions = _blocking(AdminCore.list_transactions)
    describe_transactions = _blocking(AdminCore.describe_transactions)
    describe_producers = _blocking(AdminCore.describe_producers)
    abort_transaction = _blocking(AdminCore.abort_transaction)
    fence_producers = _blocking(AdminCore.fence_producers)
    force_terminate_transaction = _blocking(AdminCore.force_terminate_transaction)
    find_hanging_transactions = _blocking(AdminCore.find_hanging_transactions)

    # Access rules

    describe_acls = _blocking(AdminCore.describe_acls)
    create_acls = _blocking(AdminCore.create_acls)
    delete_acls = _blocking(AdminCore.delete_acls)

    # Quotas, credentials, tokens

    describe_client_quotas = _blocking(AdminCore.describe_client_quotas)
    alter_client_quotas = _blocking(AdminCore.alter_client_quotas)
    describe_user_scram_credentials = _blocking(AdminCore.describe_user_scram_credentials)
    alter_user_scram_credentials = _blocking(AdminCore.alter_user_scram_credentials)
    create_delegation_token = _blocking(AdminCore.create_delegation_token)
    renew_delegation_token = _blocking(AdminCore.renew_delegation_token)
    expire_delegation_token = _blocking(AdminCore.expire_delegation_token)
    describe_delegation_token = _blocking(AdminCore.describe_delegation_token)

    # The cluster

    describe_cluster = _blocking(AdminCore.describe_cluster)
    unregister_broker = _blocking(AdminCore.unregister_broker)
    describe_features = _blocking(AdminCore.describe_features)
    update_features = _blocking(AdminCore.update_features)
    api_versions = _blocking(AdminCore.api_versions)
    describe_log_dirs = _blocking(AdminCore.describe_log_dirs)
    describe_replica_log_dirs = _blocking(AdminCore.describe_replica_log_dirs)
    alter_replica_log_dirs = _blocking(AdminCore.alter_replica_log_dirs)
    describe_metadata_quorum = _blocking(AdminCore.describe_metadata_quorum)
    add_raft_voter = _blocking(AdminCore.add_raft_voter)
    remove_raft_voter = _blocking(AdminCore.remove_raft_voter)

"""The lifecycle of a broker in its cluster: registering, joining, rejoining and leaving.

Kafka's `BrokerLifecycleManager`.

A standalone broker is a cluster of one broker. It has the same parts; its metadata store is in its first log directory.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ottla.cluster.broker.config_store import DynamicConfigStore
from ottla.cluster.broker.metadata_updates import ControllerRequestHandler
from ottla.cluster.broker.registration import Registration
from ottla.cluster.controller.channels import ControllerChannels, StopReplica
from ottla.cluster.controller.controller import Controller
from ottla.cluster.controller.election import ControllerElection, ControllerTerm
from ottla.cluster.controller.preferred_leader_rebalance import PreferredLeaderRebalance
from ottla.cluster.controller.znode_watchers import ZNodeChangeHandlers
from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.interbroker.client import InterBrokerClient
from ottla.cluster.store import znodes
from ottla.cluster.store.change_notifications import ChangeListener, failures_log
from ottla.cluster.store.metadata_store import Create, MetadataStore, MetadataStoreError, NodeExistsError
from ottla.config.broker.broker_config import BrokerConfig
from ottla.errors import KafkaError, NotControllerError, StartupError, for_code
from ottla.logs import listed
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.net.client.connect import SocketOptions
    from ottla.net.client.sasl_login import Login

log = logging.getLogger("ottla.cluster")

SHUTDOWN_VERSION: Final = 3
PURPOSE: Final = "shutdown"
RETRY_SECONDS: Final = 0.1
"""Delay in seconds before a report to the controller is repeated after an error."""


class BrokerLifecycle:
    """Registers this broker, takes part in controller elections, and leaves the cluster. Its parts include the
    metadata cache, the controller and the connections to the other brokers. Not thread-safe: event loop only.
    """

    def __init__(
        self,
        store: MetadataStore,
        config: BrokerConfig,
        broker_id: int,
        *,
        stop: StopReplica,
        unclean_allowed: Callable[[str, Mapping[str, str]], bool],
        offline_replicas: Callable[[], Collection[TopicPartition]] = tuple,
        on_replaced: Callable[[str], None] | None = None,
        secret: bytes | None = None,
    ) -> None:
        """`stop`: stops or deletes a replica of this broker.

        `unclean_allowed`: returns whether a topic with this name and these configs allows unclean leader election.
        `offline_replicas`: returns the replicas that are out of service. `on_replaced`: called with the reason when
        another broker has registered with this broker's id. `secret`: the cluster's secret, of which this broker sends
        a proof to other brokers (but see `_proves_membership`); None to send no proof.
        """
        self._store = store
        self._config = config
        self._broker_id = broker_id
        self._stop = stop
        self._offline_replicas = offline_replicas
        self._on_replaced = on_replaced
        self._is_replaced = False
        self.metadata_cache = MetadataCache()
        self.controller_requests = ControllerRequestHandler(store, self.metadata_cache, broker_id)
        self.config_store = DynamicConfigStore(store, self.metadata_cache)
        self._features_listener = ChangeListener("feature levels", self._apply_features)
        self.interbroker = InterBrokerClient(
            self._broker,
            config.inter_broker_listener_name,
            f"broker-{broker_id}",
            _socket_options(config),
            protocol=config.inter_broker_protocol,
            login=_login(config),
            secret=lambda: secret if _proves_membership(config) else None,
        )
        self.controller = Controller(store, self.metadata_cache, broker_id, self._channels, unclean_allowed)
        self._registration = Registration(store, self.metadata_cache, config.session_timeout_ms)
        self._election = ControllerElection(store, self.metadata_cache, broker_id, self._start_term, self._end_term)
        self._znode_handlers = ZNodeChangeHandlers(
            store, self.metadata_cache, self.controller, delete_topics=config.delete_topic_enable
        )
        self._rebalance = PreferredLeaderRebalance(
            self.controller,
            config.leader_imbalance_check_interval_seconds,
            config.leader_imbalance_per_broker_percentage,
        )

    async def prepare(self, cluster_id: str | None) -> None:
        """Read the cluster id, or create it, and read the dynamic configs and the levels of features from the metadata
        store.

        `cluster_id`: the cluster id in the log directory; None if it has none. Raises StartupError if the metadata
        store has another one.
        """
        agreed_id = await agreed_cluster_id(self._store, cluster_id)
        await self.metadata_cache.update(lambda _: ClusterImage(agreed_id))
        await self.config_store.start()
        await self._apply_features()
        self._features_listener.start()

    async def _apply_features(self) -> None:
        """Apply the levels of features that a controller has written. Kafka's `FinalizedFeatureChangeListener`."""
        stored = await store_reader.read_features(self._store, self._features_listener.notify)
        if stored is None:
            return

        def with_levels(image: ClusterImage) -> ClusterImage:
            if stored.epoch <= image.features_epoch:
                return image  # this broker is the controller and has written these levels, or newer ones
            return replace(image, features=stored.levels, features_epoch=stored.epoch)

        await self.metadata_cache.update(with_levels)

    async def register(self, broker: BrokerImage) -> None:
        """Register the broker. Raises StartupError if another broker has its broker.id, or one of its addresses."""
        await self._check_addresses(broker)
        await self._registration.register(broker)

    async def join(self) -> None:
        """Take part in controller elections. Return when a controller is elected."""
        await self._election.start()

    async def _check_addresses(self, broker: BrokerImage) -> None:
        own = {(e.host, e.port): e for e in broker.endpoints}
        for other in (await store_reader.read_brokers(self._store)).values():
            taken = [own[e.host, e.port] for e in other.endpoints if (e.host, e.port) in own]
            if taken and other.id != broker.id:
                raise StartupError(
                    f"advertised.listeners: {taken[0]} is already registered by broker {other.id}; "
                    "each broker needs unique addresses"
                )

    async def rejoin(self) -> None:
        """Register again with a new session after the last one has expired.

        If another broker has registered with this broker's id meanwhile, this broker is no longer part of the cluster:
        it leaves controller elections and calls `on_replaced`, because it has to be stopped.
        """
        try:
            await self._registration.renew()
        except StartupError as error:
            log.critical(
                "Broker %d is no longer part of the cluster and is being stopped: %s", self._broker_id, error.message
            )
            self._is_replaced = True
            await self._election.close()
            if self._on_replaced is not None:
                self._on_replaced(error.message)

    async def controlled_shutdown(self) -> None:
        """Have the controller move this broker's leaderships to other brokers, if `controlled.shutdown.enable` is set
        (KIP-49).

        Do nothing if no other broker remains, or this broker is not registered, or another broker has its id now.
        """
        config, own = self._config, self.metadata_cache.image.brokers.get(self._broker_id)
        if not config.controlled_shutdown_enable or own is None or self._is_last(self.metadata_cache.image):
            return
        if self._is_replaced:
            return  # another broker has this id now
        began, led = time.monotonic(), self._led(self.metadata_cache.image)
        if led:
            log.info("Controlled shutdown of broker %d: moving its leaders (%d) to other brokers", self._broker_id, led)
        await self._move_leaders(own)
        if led:
            seconds, remaining = time.monotonic() - began, self._led(self.metadata_cache.image)
            log.info(
                "Controlled shutdown of broker %d: moved %d of %d leaders in %.2f s",
                self._broker_id,
                led - remaining,
                led,
                seconds,
            )

    def _led(self, image: ClusterImage) -> int:
        """Return the number of partitions that this broker leads."""
        return sum(p.leader == self._broker_id for topic in image.topics.values() for p in topic.partitions)

    async def _move_leaders(self, own: BrokerImage) -> None:
        config = self._config
        for left in reversed(range(config.controlled_shutdown_max_retries + 1)):
            try:
                remaining = await self._request_controlled_shutdown(own)
            except KafkaError as error:
                outcome = (
                    f"retrying (retries left: {left})" if left else "stopping without moving the remaining leaders"
                )
                log.warning("Controlled shutdown request of broker %d failed; %s: %s", own.id, outcome, error)
            else:
                if not remaining:
                    return
                if left:
                    log.warning(
                        "The controller could not move all leaders of broker %d to other in-sync replicas; retrying in "
                        "%g s (retries left: %d): %s",
                        own.id,
                        config.controlled_shutdown_retry_backoff_ms / 1000,
                        left,
                        listed(remaining),
                    )
                else:
                    log.warning(
                        "The controller could not move all leaders of broker %d to other in-sync replicas; this broker "
                        "stops nevertheless, after which partitions that it still leads may have no leader: %s",
                        own.id,
                        listed(remaining),
                    )
            if left and await self.metadata_cache.wait_for(
                self._is_last, config.controlled_shutdown_retry_backoff_ms / 1000
            ):
                return

    def _is_last(self, image: ClusterImage) -> bool:
        """Return whether all other brokers have left or are shutting down. Only the controller knows the latter."""
        return image.brokers.keys() <= image.shutting_down | {self._broker_id}

    async def _request_controlled_shutdown(self, own: BrokerImage) -> list[TopicPartition]:
        if self.controller.is_active:
            return await self.controller.controlled_shutdown(own.id, own.epoch)
        from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest

        request = ControlledShutdownRequest(broker_id=own.id, broker_epoch=own.epoch)
        timeout = self._config.request_timeout_ms / 1000
        controller_id = self.metadata_cache.image.controller_id
        response = await self.interbroker.send(
            controller_id, request, SHUTDOWN_VERSION, timeout=timeout, purpose=PURPOSE
        )
        if response.error_code:
            raise for_code(response.error_code)
        return [TopicPartition(p.topic_name, p.partition_index) for p in response.remaining_partitions]

    async def report_offline_replicas(self, partitions: Collection[TopicPartition]) -> None:
        """Report to the controller that replicas of this broker are out of service, so that it elects other leaders
        (KIP-112).

        Retry after MetadataStoreError and NotControllerError until the report succeeds.
        """
        while True:
            try:
                return await self._report(partitions)
            except (MetadataStoreError, NotControllerError) as error:
                failures_log.warning(
                    "Cannot report the offline replicas of broker %d to the controller, so they may still be leaders; "
                    "retrying in %g s (%s): %s",
                    self._broker_id,
                    RETRY_SECONDS,
                    listed(sorted(partitions)),
                    error,
                )
                await asyncio.sleep(RETRY_SECONDS)

    async def _report(self, partitions: Collection[TopicPartition]) -> None:
        if self.controller.is_active:
            await self.controller.on_replicas_offline(self._broker_id, partitions)
        else:
            path, value = f"{znodes.LOG_DIR_EVENTS}/log_dir_event_", znodes.log_dir_event(self._broker_id)
            await self._store.multi([Create(path, value, sequence=True)])

    async def close(self) -> None:
        """Stop taking part in the cluster. The registration remains until the session ends."""
        await self._election.close()
        await self._features_listener.close()
        await self.config_store.close()
        self.interbroker.close()

    def _broker(self, broker_id: int) -> BrokerImage | None:
        return self.metadata_cache.image.brokers.get(broker_id)

    def _channels(self, controller: Controller) -> ControllerChannels:
        return ControllerChannels(
            self.metadata_cache,
            self.interbroker,
            self._broker_id,
            self._stop,
            controller.topics.on_replicas_deleted,
            controller.on_replicas_offline,
            self._config.request_timeout_ms,
            controller.term.epoch,
        )

    async def _start_term(self, term: ControllerTerm) -> None:
        await self.controller.start_term(term)
        offline = self._offline_replicas()
        if offline:
            await self.controller.on_replicas_offline(
                self._broker_id, offline
            )  # the controller sends itself no LeaderAndIsr, in whose response it would report them
        self.controller_requests.mark_initialized()
        self._znode_handlers.start()
        if self._config.auto_leader_rebalance_enable:
            self._rebalance.start()

    async def _end_term(self) -> None:
        self._rebalance.close()
        await self._znode_handlers.close()
        await self.controller.end_term()


def _socket_options(config: BrokerConfig) -> SocketOptions | None:
    """Return the TLS socket options for connections to other brokers; None if they need no TLS, or the broker is
    standalone or has no inter-broker listener.
    """
    listener = config.inter_broker_listener
    if not config.in_cluster or listener is None or not config.inter_broker_protocol.endswith("SSL"):
        return None
    from ottla.net.server.listener_ssl import client_options  # a broker without TLS starts without it

    return client_options(config, listener.name)


def _proves_membership(config: BrokerConfig) -> bool:
    """Return whether this broker proves to other brokers that it knows the cluster's secret.

    It does not if Apache Kafka's brokers may be in the cluster and connections use SASL, because Apache Kafka's brokers
    would treat the proof as a second login.
    """
    return not (config.apache_kafka_brokers_enable and config.inter_broker_protocol.startswith("SASL"))


def _login(config: BrokerConfig) -> Login | None:
    """Return this broker's SASL login for connections to other brokers; None if they do not use SASL, or the broker is
    standalone.
    """
    if not config.in_cluster or not config.inter_broker_protocol.startswith("SASL"):
        return None
    from ottla.net.client.sasl_login import Login  # as above

    mechanism, credentials = config.broker_login()
    if mechanism != "OAUTHBEARER":
        return Login(mechanism, credentials["username"], credentials["password"])
    from ottla.security.sasl.token_provider import token_provider

    return Login(mechanism, tokens=token_provider(config, credentials))


async def agreed_cluster_id(store: MetadataStore, expected: str | None) -> str:
    """Return the cluster id in the metadata store. Create missing persistent znodes first.

    If the store has no id, write `expected` or a new one. Raises StartupError if it has a different id than `expected`.
    """
    await store_reader.create_persistent_nodes(store)
    stored_id = await store_reader.read_cluster_id(store)
    if stored_id is None:
        stored_id = expected or znodes.uuid_text(uuid.uuid4())
        try:
            await store.multi([Create(znodes.CLUSTER_ID, znodes.dump({"version": "1", "id": stored_id}))])
        except NodeExistsError:
            return await agreed_cluster_id(store, expected)  # another broker has just stored one
    if expected not in (None, stored_id):
        raise StartupError(
            f"log.dirs: the data belongs to cluster {expected}, the metadata store to cluster {stored_id}; "
            "use the log directory that belongs to it, or an empty one"
        )
    return stored_id

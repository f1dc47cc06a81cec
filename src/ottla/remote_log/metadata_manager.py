"""The metadata of segments in remote storage. Kafka's TopicBasedRemoteLogMetadataManager.

Brokers append each change of a segment to `__remote_log_metadata`. Every broker reads the partitions of this topic that
have the metadata of its replicas, and those that it leads. Of the latter, it stores all metadata, because it deletes
the segments of deleted topics. A change takes effect when it has been read back, so that all brokers see the changes in
the same order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

from ottla import errors
from ottla.backoff import ExponentialBackoff
from ottla.cluster.image.cluster_image import NO_LEADER
from ottla.logs import RateLimitFilter, listed
from ottla.records import any_magic
from ottla.remote_log.metadata_records import decode_event, encode_event, metadata_partition
from ottla.remote_log.metadata_store import RemotePartitionMetadataStore
from ottla.remote_log.metadata_topic import RemoteLogMetadataTopic
from ottla.remote_log.segment_metadata import RemoteLogEvent, RemotePartition
from ottla.replication.offset_waiters import OffsetWaiters
from ottla.replication.partition import Partition

log = logging.getLogger("ottla.remote_log")
reads_log = logging.getLogger("ottla.remote_log.metadata")
reads_log.addFilter(RateLimitFilter())  # a leader that cannot be reached is tried again and again

RETRY_SECONDS: Final = (0.05, 1.0)


class MetadataPartition:
    """A partition of `__remote_log_metadata` that this broker reads."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.position = 0
        self.target: int | None = None
        """The end offset that was found after the last rewind; None if it is not known yet."""
        self.reads_all = False
        """Whether the metadata of all partitions is stored, not only that of this broker's replicas."""
        self.is_ready = False
        """Whether the partition has been read up to `target`."""
        self.stores: dict[RemotePartition, RemotePartitionMetadataStore] = {}
        self.assigned: set[RemotePartition] = set()
        self.read_back = OffsetWaiters()

    def rewind(self) -> None:
        """Reset the position to 0, for example because more of the partition has to be stored."""
        self.position = 0
        self.is_ready = False
        self.target = None

    def apply(self, batches: memoryview) -> None:
        """Store the events in these batches, advance the position to their end, and complete waiters up to there."""
        for header, start, _ in any_magic.split(batches):
            if header.next_offset > self.position:
                if not header.is_control:
                    for record in any_magic.decode_records(batches, start, header, self.position):
                        self._apply(record.offset, record.value)
                self.position = header.next_offset
        if self.target is not None and self.position >= self.target:
            self.is_ready = True
            for store in self.stores.values():
                store.set_ready()
        self.read_back.complete_up_to(self.position)

    def _apply(self, offset: int, value: bytes | None) -> None:
        try:
            event = decode_event(value or b"")
        except errors.KafkaError as error:
            log.error(
                "Skipping malformed record at offset %d of __remote_log_metadata-%d, so its change of a segment in "
                "remote storage is not applied: %s",
                offset,
                self.number,
                error,
            )
            return
        if event is None:
            return
        store = self.stores.get(event.partition)
        if store is None and self.reads_all:
            store = self.stores[event.partition] = RemotePartitionMetadataStore(event.partition)
        if store is not None:
            store.apply(offset, event)
            if self.reads_all and not store and event.partition not in self.assigned:
                del self.stores[event.partition]  # its last segment was deleted


class RemoteLogMetadataManager:
    """Reads and changes the metadata of segments. Not thread-safe: event loop only."""

    def __init__(
        self,
        broker_id: int,
        topic: RemoteLogMetadataTopic,
        create_topic: Callable[[], Awaitable[object]],
        consume_wait_seconds: float,
    ) -> None:
        """`create_topic`: creates `__remote_log_metadata` if it does not exist."""
        self._broker_id = broker_id
        self._topic = topic
        self._create_topic = create_topic
        self._wait_seconds = consume_wait_seconds
        self._stores: dict[RemotePartition, RemotePartitionMetadataStore] = {}
        """The stores of this broker's replicas."""
        self._unplaced: set[RemotePartition] = set()
        """The partitions that wait for `__remote_log_metadata` to be created."""
        self._partitions: dict[int, MetadataPartition] = {}
        self._changed = asyncio.Event()
        self._readers: dict[int, asyncio.Task[None]] = {}
        """The tasks that read from each leader, by broker id."""
        self._new_records = asyncio.Event()

    # This broker's replicas

    def assign(self, partition: RemotePartition) -> None:
        """Add a store for a partition of which this broker has a replica, unless there is one. The store is filled in
        the background.
        """
        if partition not in self._stores:
            store = self._stores[partition] = RemotePartitionMetadataStore(partition)
            self._place(store)

    def _place(self, store: RemotePartitionMetadataStore) -> None:
        count = self._topic.partition_count
        if not count:
            self._unplaced.add(store.partition)
            return
        number = metadata_partition(store.partition, count)
        metadata = self._partitions.get(number)
        if metadata is None:
            metadata = self._partitions[number] = MetadataPartition(number)
        metadata.assigned.add(store.partition)
        if metadata.reads_all:
            store = self._stores[store.partition] = metadata.stores.setdefault(store.partition, store)
            if metadata.is_ready:
                store.set_ready()
        else:
            metadata.stores[store.partition] = store
            metadata.rewind()
        self.update_readers()

    def unassign(self, partition: RemotePartition) -> None:
        """Undo `assign`. Drop the partition's store, unless this broker stores everything in the partition of
        `__remote_log_metadata` that has its metadata.
        """
        self._stores.pop(partition, None)
        for metadata in self._partitions.values():
            if partition in metadata.assigned:
                metadata.assigned.discard(partition)
                if not metadata.reads_all:
                    metadata.stores.pop(partition, None)

    def store(self, partition: RemotePartition) -> RemotePartitionMetadataStore | None:
        """Return the store of one of this broker's replicas; None if the partition is not assigned."""
        return self._stores.get(partition)

    # Partitions of the topic

    def update_readers(self) -> None:
        """Apply the topic's current partition count and leaders. Start the tasks that read from the leaders, and wake
        those that are running.
        """
        count = self._topic.partition_count
        if not count:
            return
        for number in range(count):
            leads = self._topic.leader(number) == self._broker_id
            metadata = self._partitions.get(number)
            if leads and metadata is None:
                metadata = self._partitions[number] = MetadataPartition(number)
            if metadata is not None and leads != metadata.reads_all:
                self._set_reads_all(metadata, leads)
        leaders = {self._topic.leader(n) for n, metadata in self._partitions.items()} - {NO_LEADER}
        for leader in leaders:
            reader = self._readers.get(leader)
            if reader is None or reader.done():
                run = self._read_own() if leader == self._broker_id else self._read_from(leader)
                self._readers[leader] = asyncio.get_running_loop().create_task(run)
        self._changed.set()
        self._new_records.set()
        unplaced, self._unplaced = self._unplaced, set()
        for partition in unplaced:
            store = self._stores.get(partition)
            if store is not None:
                self._place(store)

    def _set_reads_all(self, metadata: MetadataPartition, reads_all: bool) -> None:
        metadata.reads_all = reads_all
        if reads_all:
            metadata.rewind()
        else:
            metadata.stores = {p: s for p, s in metadata.stores.items() if p in metadata.assigned}

    def led(self) -> Iterator[MetadataPartition]:
        """Yield the partitions of the topic that this broker leads and that are ready."""
        for metadata in list(self._partitions.values()):
            if metadata.reads_all and metadata.is_ready and self._topic.led(metadata.number) is not None:
                yield metadata

    @property
    def is_topic_missing(self) -> bool:
        """Whether `__remote_log_metadata` does not exist yet."""
        return not self._topic.partition_count

    async def ensure_topic(self) -> None:
        """Create the topic if it does not exist. Raises KafkaError."""
        if self.is_topic_missing:
            await self._create_topic()
            self.update_readers()

    # Changes

    async def publish(self, event: RemoteLogEvent) -> None:
        """Append a change, and wait until this broker has read it back, if it reads that partition of the topic.

        Raises KafkaError. The change may have been appended nevertheless.
        """
        await self.ensure_topic()
        number = metadata_partition(event.partition, self._topic.partition_count)
        offset = await self._topic.append(number, encode_event(event))
        metadata = self._partitions.get(number)
        self._new_records.set()
        if metadata is None or metadata.position > offset:
            return
        try:
            async with asyncio.timeout(self._wait_seconds):
                await metadata.read_back.add(offset + 1)
        except TimeoutError:
            raise errors.RequestTimedOutError(
                f"offset {offset} of __remote_log_metadata-{number} was not read in {self._wait_seconds:g} s"
            ) from None

    # Reading

    def _of_leader(self, leader: int) -> list[MetadataPartition]:
        return [metadata for n, metadata in self._partitions.items() if self._topic.leader(n) == leader]

    async def _read_own(self) -> None:
        """Read the partitions that this broker leads."""
        backoff, failures = ExponentialBackoff(*RETRY_SECONDS), 0
        watched: dict[int, object] = {}
        while True:
            self._new_records.clear()
            try:
                for metadata in self._of_leader(self._broker_id):
                    partition = self._topic.led(metadata.number)
                    if partition is None:
                        continue
                    if watched.get(metadata.number) is not partition:
                        watched[metadata.number] = partition
                        partition.watch(self._on_append)
                    await self._catch_up(metadata, partition)
                failures = 0
            except errors.KafkaError as error:
                delay = backoff.backoff(failures)
                reads_log.warning(
                    "Cannot read __remote_log_metadata-%d, which this broker leads; retrying in %.2f s: %s",
                    metadata.number,
                    delay,
                    error,
                )
                await asyncio.sleep(delay)
                failures += 1
                continue
            await self._new_records.wait()

    async def _catch_up(self, metadata: MetadataPartition, partition: Partition) -> None:
        """Read a partition, which this broker leads, up to its high watermark. Return early while the high watermark is
        behind the start of the leader epoch.
        """
        while metadata.position < partition.high_watermark or not metadata.is_ready:
            if partition.leader_replica.is_hw_behind_epoch_start:
                return  # consumers of the previous leader may have seen more; the partition notifies when it advances
            if metadata.target is None:
                metadata.target = partition.high_watermark
            position = metadata.position
            batches = await self._topic.read(partition, position)
            if not batches and position < metadata.target:
                raise errors.KafkaStorageError(f"nothing could be read at offset {position}")
            if metadata.position == position:  # otherwise it was rewound meanwhile
                metadata.apply(batches)

    def _on_append(self, _nbytes: int) -> None:
        self._new_records.set()

    async def _read_from(self, leader: int) -> None:
        """Read the partitions that another broker leads."""
        backoff, failures = ExponentialBackoff(*RETRY_SECONDS), 0
        while True:
            self._changed.clear()
            partitions = {metadata.number: metadata for metadata in self._of_leader(leader)}
            if not partitions:
                await self._changed.wait()
                continue
            try:
                for metadata in partitions.values():
                    if metadata.target is None:
                        metadata.target = await self._topic.end_offset(metadata.number)
                offsets = {number: metadata.position for number, metadata in partitions.items()}
                slices = await self._topic.fetch(leader, offsets)
                failed = await self._apply(((partitions[n], offsets[n], part) for n, part in slices.items()))
            except errors.KafkaError as error:
                failed = error
            if failed is None:
                failures = 0
                continue
            delay = backoff.backoff(failures)
            reads_log.log(
                logging.DEBUG if failures == 0 else logging.WARNING,
                "Cannot read __remote_log_metadata from broker %d, at least one of these partitions: %s; retrying in "
                "%.2f s: %s",
                leader,
                listed(sorted(partitions)),
                delay,
                failed,
            )
            await asyncio.sleep(delay)
            failures += 1

    async def _apply(
        self, slices: Iterable[tuple[MetadataPartition, int, memoryview | errors.KafkaError]]
    ) -> errors.KafkaError | None:
        """Store the fetched records. Return an error of one of the partitions, or None."""
        failed = None
        for metadata, offset, part in slices:
            if metadata.position != offset:
                continue  # it was rewound meanwhile
            if isinstance(part, errors.OffsetOutOfRangeError):
                metadata.rewind()
                metadata.position = await self._topic.start_offset(metadata.number)
            elif isinstance(part, errors.KafkaError):
                failed = part
            else:
                metadata.apply(part)
        return failed

    async def close(self) -> None:
        """Stop reading, and fail the calls of `publish` that wait for a change to be read back."""
        readers = list(self._readers.values())
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        for metadata in self._partitions.values():
            metadata.read_back.fail_all(errors.BrokerNotAvailableError("this broker is stopping"))

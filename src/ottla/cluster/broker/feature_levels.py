"""The levels of the cluster's features in a broker that is not the controller: read at its start, and after changes.

Kafka's `FinalizedFeatureChangeListener`.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.store.change_notifications import ChangeListener
from ottla.cluster.store.metadata_store import MetadataStore


class FeatureLevels:
    """Applies the levels of features that a controller has written. Not thread-safe: event loop only."""

    def __init__(self, store: MetadataStore, metadata_cache: MetadataCache) -> None:
        self._store = store
        self._cache = metadata_cache
        self._listener = ChangeListener("feature levels", self._read)

    async def start(self) -> None:
        """Read the levels, and apply changes from now on."""
        await self._read()
        self._listener.start()

    async def close(self) -> None:
        await self._listener.close()

    async def _read(self) -> None:
        stored = await store_reader.read_features(self._store, self._listener.notify)
        if stored is None:
            return

        def with_levels(image: ClusterImage) -> ClusterImage:
            if stored.epoch <= image.features_epoch:
                return image  # this broker is the controller and has written these levels, or newer ones
            return replace(image, features=stored.levels, features_epoch=stored.epoch)

        await self._cache.update(with_levels)

"""The parts that the serializers of all schema types share: subjects, and the id of a serializer's schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from ottla.errors import ConfigurationError
from ottla.serdes.registry_client import Schema, SchemaRegistryClient

SubjectNameStrategy = Callable[[str, str, str], str]
"""A function that returns the subject for a topic, `key` or `value`, and a record type (empty if it has no name)."""

STRATEGIES: Final[Mapping[str, SubjectNameStrategy]] = {
    "TopicNameStrategy": lambda topic, field, name: f"{topic}-{field}",
    "RecordNameStrategy": lambda topic, field, name: name,
    "TopicRecordNameStrategy": lambda topic, field, name: f"{topic}-{name}",
}
"""Confluent's strategies, by the names of their Java classes."""

MAX_SUBJECTS: Final = 1_000


class SubjectNames:
    """Names subjects by a strategy: the name of one of `STRATEGIES`, with or without its Java package, or a callable.
    Raises ConfigurationError for other names.
    """

    def __init__(self, strategy: str | SubjectNameStrategy = "TopicNameStrategy") -> None:
        if callable(strategy):
            self._strategy = strategy
        elif (name := strategy.rpartition(".")[2]) in STRATEGIES:
            self._strategy = STRATEGIES[name]
        else:
            raise ConfigurationError(f"subject.name.strategy {strategy!r} is not one of {', '.join(STRATEGIES)}")
        self._field = "value"

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Set whether to name subjects of keys (if `is_key`) or of values."""
        self._field = "key" if is_key else "value"

    def subject(self, topic: str, name: str) -> str:
        """Return the subject. Raises ValueError if it is empty, or needs the name of a record type that has none."""
        subject = self._strategy(topic, self._field, name)
        if not subject or (not name and subject.endswith("-")):
            raise ValueError("the subject.name.strategy requires a schema with a name")
        return subject


class SchemaIds:
    """The schemas and their ids with which a serializer writes. The last used MAX_SUBJECTS subjects are cached.

    Args:
        registry: the client of the schema registry.
        auto_register_schemas: whether the serializer registers its schema. None: it does, unless it uses the latest
            version. False: the schema must be registered already, unless the serializer uses the latest version.
        use_latest_version: write with the version of the subject that is the latest one at the first record, instead of
            the serializer's schema.
        normalize_schemas: whether the registry normalizes the schema.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient,
        *,
        auto_register_schemas: bool | None,
        use_latest_version: bool,
        normalize_schemas: bool,
    ) -> None:
        if auto_register_schemas and use_latest_version:
            raise ConfigurationError("auto.register.schemas and use.latest.version cannot both be true")
        self.registry = registry
        self.registers: bool = not use_latest_version if auto_register_schemas is None else auto_register_schemas
        self.is_latest = use_latest_version
        self.normalize = normalize_schemas
        self._cached = lru_cache(MAX_SUBJECTS)(self._resolve)

    def writing(self, subject: str, schema: Schema | None) -> tuple[int, Schema]:
        """Return the id and the schema to write with. Raises SchemaRegistryError if a request to the registry fails,
        and ValueError if a schema is necessary but None.
        """
        return self._cached(subject, schema)

    def _resolve(self, subject: str, schema: Schema | None) -> tuple[int, Schema]:
        if self.is_latest:
            latest = self.registry.latest(subject)
            return latest.schema_id, latest.schema
        if schema is None:
            raise ValueError("a serializer without a schema requires use_latest_version=True")
        if self.registers:
            return self.registry.register(subject, schema, normalize=self.normalize), schema
        return self.registry.lookup(subject, schema, normalize=self.normalize).schema_id, schema


class SchemaSerializer:
    """Base class of the serializers of all schema types: it has their schema ids and subject names."""

    def __init__(self, ids: SchemaIds, names: SubjectNames) -> None:
        self._ids = ids
        self._names = names

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Use the subjects of keys if `is_key` is set, otherwise those of values. Called by the client."""
        self._names.configure(configs, is_key)

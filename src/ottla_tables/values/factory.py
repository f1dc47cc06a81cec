"""Chooses the converter of a topic's records by ottla.table.schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import ConfigurationError
from ottla_tables.columns import RECORD
from ottla_tables.values.rows import BytesConverter, RowConverter, TextConverter

if TYPE_CHECKING:
    from ottla.serdes import SchemaRegistryClient

REGISTRY_PREFIX: Final = "schema.registry."
URL: Final = f"{REGISTRY_PREFIX}url"
BASIC_AUTH: Final = f"{REGISTRY_PREFIX}basic.auth.user.info"
CA: Final = f"{REGISTRY_PREFIX}ssl.ca.location"


class ConverterFactory:
    """Creates the converters of topics.

    Args:
        properties: properties, of which `schema.registry.url` (for topics whose config names no URL),
            `schema.registry.basic.auth.user.info` (sent to this URL only) and `schema.registry.ssl.ca.location` are
            used.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._registries: dict[str, SchemaRegistryClient] = {}

    def initial_schema(self, topic: str, schema: str) -> Any:
        """Return the columns of a new table."""
        return self.converter(topic, schema, None).schema

    def converter(self, topic: str, schema: str, table: Any | None, *, widens: bool = True) -> RowConverter:
        """Return the converter of a topic's records. Raises ConfigurationError if the config is not supported, and
        KafkaError if the schema registry does not respond or its latest schema cannot be used.

        Args:
            topic: the topic's name.
            schema: the config ottla.table.schema.
            table: the schema of the table so far; None if the table does not exist yet.
            widens: whether columns of numbers may get wider types than they have in the table.
        """
        kind, _, argument = (part.strip() for part in schema.partition(":"))
        if kind == "bytes":
            return BytesConverter()
        if kind == "text":
            return TextConverter()
        if kind == "json":
            from ottla_tables.values.json_fields import JsonConverter, declared_schema

            return JsonConverter(declared_schema(argument) if argument else None, table or RECORD, widens=widens)
        if kind == "registry":
            from ottla_tables.values.registry_fields import RegistryConverter

            try:
                return RegistryConverter(self._registry(argument), topic, table or [], widens=widens)
            except ModuleNotFoundError as error:
                raise ConfigurationError(
                    f"ottla.table.schema=registry: {error.name} is not installed; run `pip install 'ottla[registry]'`"
                ) from None
        raise ConfigurationError(f"ottla.table.schema={schema} is not supported")

    def _registry(self, url: str) -> SchemaRegistryClient:
        from ottla.serdes import SchemaRegistryClient

        own = self._properties.get(URL, "")
        url = url or own
        if not url:
            raise ConfigurationError(
                f"ottla.table.schema=registry requires the registry's URL: registry:http://HOST:PORT, or {URL} in the "
                "file of --catalog-config"
            )
        if url not in self._registries:
            # A topic's config must not get credentials sent to another host.
            is_own = url == own
            self._registries[url] = SchemaRegistryClient(
                url,
                basic_auth=self._properties.get(BASIC_AUTH, "") if is_own else "",
                ssl_context=_ssl_context(self._properties[CA]) if CA in self._properties else None,
            )
        return self._registries[url]


def _ssl_context(ca: str) -> Any:
    import ssl

    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ConfigurationError(f"{CA}={ca} cannot be read: {error}") from error

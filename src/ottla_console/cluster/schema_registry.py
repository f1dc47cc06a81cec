"""Decoding of records in Avro, Protobuf and JSON with the schemas of a schema registry.

The wire format is Confluent's: a zero byte, the schema id in four bytes, for Protobuf the indexes of the message type,
and the data. Schemas are cached by id. `load` fetches those of a page before its records are decoded.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from ottla.errors import ConfigurationError
from ottla.logs import reason_of
from ottla.serdes.framing import HEADER_BYTES, message_path, schema_id_of

log = logging.getLogger("ottla.console")

MAX_SCHEMAS: Final = 1_000
MAX_FETCHES: Final = 20
"""The maximum number of schemas to fetch for a page, because any value that begins with a zero byte seems to have an
id.
"""
FETCH_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 30.0
"""The time in seconds before a schema that could not be fetched may be requested again."""
MAX_SCHEMA_BYTES: Final = 4 * 1024 * 1024
MAX_REFERENCES: Final = 50

Decode = Callable[[memoryview], Any]
"""A function that decodes the data after the header. Raises any exception for malformed data."""


class SchemaRegistry:
    """A client of a schema registry with a cache. Not thread-safe: use it in one event loop.

    Args:
        url: the URL of the registry, with http or https. ConfigurationError is raised for another URL.
        credentials: `user:password` for basic authentication.
    """

    def __init__(self, url: str, credentials: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise ConfigurationError(f"--schema-registry: {url!r} is invalid: expected http://HOST:PORT")
        self._url = url.rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if credentials:
            self._headers["Authorization"] = "Basic " + base64.b64encode(credentials.encode()).decode()
        self._decoders: OrderedDict[int, Decode] = OrderedDict()
        self._failed: OrderedDict[int, float] = OrderedDict()

    async def load(self, values: Iterable[bytes | None]) -> None:
        """Fetch the schemas of these keys and values that are not in the cache, at most MAX_FETCHES. If a schema cannot
        be fetched, the error is logged, and the schema is not requested again for RETRY_SECONDS.
        """
        ids = {schema_id for value in values if (schema_id := schema_id_of(value)) is not None}
        now = time.monotonic()
        missing = [i for i in ids if i not in self._decoders and self._failed.get(i, 0.0) <= now][:MAX_FETCHES]
        if missing:
            await asyncio.gather(*map(self._load, missing))

    def to_json(self, value: bytes | None) -> bytes | None:
        """Return a value as JSON. Return None if it has no schema in the cache, or cannot be decoded with it."""
        schema_id = schema_id_of(value)
        decode = self._decoders.get(schema_id) if schema_id is not None else None
        if value is None or decode is None:
            return None
        try:
            return json.dumps(decode(memoryview(value)[HEADER_BYTES:]), ensure_ascii=False, default=_plain).encode()
        except Exception as error:  # decoders may raise any exception; the record is shown without decoding
            log.debug(
                "Showing a key or value without decoding, because decoding with schema %s failed: %r", schema_id, error
            )
            return None

    async def _load(self, schema_id: int) -> None:
        try:
            async with asyncio.timeout(2 * FETCH_SECONDS):
                decoder = await asyncio.to_thread(self._decoder, schema_id)
        except Exception as error:  # also errors of parsers: an unusable schema is treated as missing
            log.info(
                "Cannot load schema %s from %s; records with it are shown without decoding until a later attempt "
                "succeeds: %s",
                schema_id,
                self._url,
                reason_of(error),
            )
            _add(self._failed, schema_id, time.monotonic() + RETRY_SECONDS)
        else:
            _add(self._decoders, schema_id, decoder)

    def _decoder(self, schema_id: int) -> Decode:
        schema = self._get(f"/schemas/ids/{schema_id}")
        match schema.get("schemaType", "AVRO"):
            case "AVRO":
                return _avro_decoder(schema, self._references(schema))
            case "PROTOBUF":
                serialized = self._get(f"/schemas/ids/{schema_id}?format=serialized")
                return _protobuf_decoder(serialized, self._references(schema, "?format=serialized"))
            case "JSON":
                return lambda data: json.loads(bytes(data))
        raise ValueError(f"unknown schema type: {schema['schemaType']}")

    def _references(self, schema: Mapping[str, Any], query: str = "") -> dict[str, Mapping[str, Any]]:
        """Return the schemas that a schema references, by name. Each schema comes after those that it references
        itself.
        """
        loaded: dict[str, Mapping[str, Any]] = {}

        def load(parent: Mapping[str, Any]) -> None:
            for reference in parent.get("references") or ():
                name = str(reference["name"])
                if name in loaded:
                    continue
                if len(loaded) >= MAX_REFERENCES:
                    raise ValueError(f"more than {MAX_REFERENCES} references")
                path = f"/subjects/{quote(str(reference['subject']), safe='')}/versions/{int(reference['version'])}"
                child = self._get(path + query)
                load(child)
                loaded[name] = child

        load(schema)
        return loaded

    def _get(self, path: str) -> Mapping[str, Any]:
        request = urllib.request.Request(self._url + path, headers=self._headers)
        with urllib.request.urlopen(request, timeout=FETCH_SECONDS) as response:
            body = response.read(MAX_SCHEMA_BYTES + 1)
        if len(body) > MAX_SCHEMA_BYTES:
            raise ValueError("the schema is too large")
        schema = json.loads(body)
        if not isinstance(schema, dict):
            raise TypeError("the response is not a JSON object")
        return schema


def _avro_decoder(schema: Mapping[str, Any], references: Mapping[str, Mapping[str, Any]]) -> Decode:
    import io

    import fastavro

    named: dict[str, Any] = {}
    for reference in references.values():
        fastavro.parse_schema(json.loads(reference["schema"]), named_schemas=named)
    parsed = fastavro.parse_schema(json.loads(schema["schema"]), named_schemas=named)
    return lambda data: fastavro.schemaless_reader(io.BytesIO(data), parsed, None)


def _protobuf_decoder(schema: Mapping[str, Any], references: Mapping[str, Mapping[str, Any]]) -> Decode:
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

    pool = descriptor_pool.DescriptorPool()

    def add(document: Mapping[str, Any], name: str) -> str:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(document["schema"]))
        file.name = name
        for dependency in file.dependency:
            if dependency not in references:
                _add_well_known(pool, dependency)
        pool.Add(file)
        return name

    for name, reference in references.items():
        add(reference, name)
    file = pool.FindFileByName(add(schema, "ottla.schema.proto"))

    def decode(data: memoryview) -> Any:
        path, size = message_path(data)
        types = list(file.message_types_by_name.values())
        descriptor = types[path[0]]
        for index in path[1:]:
            descriptor = descriptor.nested_types[index]
        message = message_factory.GetMessageClass(descriptor).FromString(bytes(data[size:]))
        return json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)

    return decode


def _add_well_known(pool: Any, name: str) -> None:
    """Add a file of Protobuf's standard library, such as google/protobuf/timestamp.proto, and its imports. Raises
    ValueError or ImportError for other files.
    """
    import importlib

    from google.protobuf import descriptor_pb2

    if not name.startswith("google/") or not name.endswith(".proto"):
        raise ValueError(f"{name} is not in the references of the schema")
    module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    file = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    for dependency in file.dependency:
        _add_well_known(pool, dependency)
    pool.Add(file)


def _plain(value: Any) -> str:
    """Return a value that JSON does not support as a string: bytes as hex, times in ISO 8601, others as `str` shows
    them.
    """
    if isinstance(value, (bytes, bytearray)):
        return binascii.hexlify(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _add(cache: OrderedDict[int, Any], key: int, value: Any) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > MAX_SCHEMAS:
        cache.popitem(last=False)

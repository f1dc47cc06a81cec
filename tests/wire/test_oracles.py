"""Two independent implementations, kafka-python and kio, decode our bytes and encode them again to the same bytes."""

from __future__ import annotations

import importlib
import io
import re
from typing import Any

import pytest

from ottla.protocol.apis import APIS
from ottla.protocol.fields import Field
from ottla.protocol.message import Message, Struct, encode

PAIRS = [(cls, v) for api in APIS for cls in (api.request, api.response) for v in cls.VERSIONS]
SAMPLES: dict[str, Any] = {
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "uint16": 5,
    "float64": 1.5,
    "boolean": True,
    "string": "text",
    "binary": b"bytes",
    "records": b"records",
}


def sample(cls: type[Struct], version: int) -> Any:
    """Return an instance with a value in every field of the version that is not tagged, and one item in every array."""
    fields = [field for field in cls.FIELDS if field.in_version(version) and field.tag is None and field.kind != "uuid"]
    return cls(**{field.name: sample_value(field, version) for field in fields})


def sample_value(field: Field, version: int) -> Any:
    if "error_code" in field.name:
        return 0  # kio knows the codes as an enumeration; kafka-python reads an ApiVersions error as version 0
    if field.kind == "struct":
        return sample(field.element, version)
    if field.kind == "array":
        item = field.element
        return [sample_value(item, version) if isinstance(item, Field) else sample(item, version)]
    return SAMPLES[field.kind]


@pytest.mark.parametrize(("cls", "version"), PAIRS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_kafka_python_reads_and_writes_the_same_bytes(cls: type[Message], version: int) -> None:
    theirs = kafka_python_class(cls.__name__)
    if not theirs.min_version <= version <= theirs.max_version:
        pytest.skip(f"kafka-python has no version {version}")
    data = bytes(encode(sample(cls, version), version))
    message = theirs.decode(data, version=version)
    message._header = None  # kafka-python reads it without having set it
    assert bytes(message.encode(version=version)) == data


def kafka_python_class(name: str) -> Any:
    pytest.importorskip("kafka", reason="needs kafka-python")
    for part in ("metadata", "producer", "consumer", "admin", "sasl"):
        attribute = getattr(importlib.import_module(f"kafka.protocol.{part}"), name, None)
        if attribute is not None:
            return attribute
    pytest.skip(f"kafka-python has no {name}")


@pytest.mark.parametrize(("cls", "version"), PAIRS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_kio_reads_and_writes_the_same_bytes(cls: type[Message], version: int) -> None:
    serial: Any = pytest.importorskip("kio.serial", reason="needs kio")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.NAME).lower()
    side = "request" if cls.__name__.endswith("Request") else "response"
    try:
        module = importlib.import_module(f"kio.schema.{words}.v{version}.{side}")
    except ImportError:
        pytest.skip(f"kio has no version {version}")
    theirs = getattr(module, cls.__name__)
    data = bytes(encode(sample(cls, version), version))
    actual = serial.entity_reader(theirs)(data, 0)
    entity = actual[0] if isinstance(actual, tuple) else actual
    out = io.BytesIO()
    serial.entity_writer(theirs)(out, entity)
    assert out.getvalue() == data

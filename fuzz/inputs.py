"""Targets for fuzzing with coverage. Each one reads bytes, and may raise the errors of its subject only.

`fuzz.coverage` looks for bytes that reach new code; `fuzz.decoders` damages valid ones at random.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from fuzz import seeds, state
from ottla.cluster.controller import znode_watchers
from ottla.cluster.image import store_reader
from ottla.cluster.store import config_entities, token_znodes, zk_client, znodes
from ottla.cluster.store.metadata_store import UnreadableNodeError, ZNode
from ottla.config import environment, jaas, properties
from ottla.config.broker import principal_rules
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.group import GroupConfig
from ottla.config.producer import ProducerConfig
from ottla.config.topic import LogConfig, TopicConfig
from ottla.coordinator.transaction import transaction_records
from ottla.errors import KafkaError, MalformedMessageError, SaslAuthenticationFailedError
from ottla.protocol.apis import APIS
from ottla.protocol.header import decode_request_header
from ottla.protocol.message import decode
from ottla.protocol.versioned import decode_versioned
from ottla.records import any_magic, compression, legacy_message_set
from ottla.records.batch import HEADER_BYTES, LOG_OVERHEAD, reseal, split
from ottla.records.conversion import down_converted
from ottla.records.decoder import decode_records, records
from ottla.records.scanner import Scanner
from ottla.remote_log import metadata_records
from ottla.security.acl import ResourcePattern, ResourceType
from ottla.security.sasl import jwt_validator, token_provider
from ottla.security.sasl.oauthbearer import AuthenticatedUser, InvalidTokenError, OAuthBearerServer
from ottla.security.sasl.plain import PlainServer
from ottla.security.sasl.scram import Credential, ScramClient, ScramServer
from ottla.security.tls.distinguished_name import subject_of
from ottla.security.tls.jks import read_jks
from ottla.storage import checkpoints, validation
from ottla.storage.index import OffsetIndex, TimeIndex
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.producer_state import ProducerStates
from ottla.storage.txn_index import TransactionIndex

Target = Callable[[bytes], object]

MESSAGES: Final = [cls for api in APIS for cls in (api.request, api.response)]
DATA: Final = [*state.GROUP_DATA, *state.OTHER_DATA]
CONFIGS: Final = (BrokerConfig, TopicConfig, GroupConfig, ClientMetricsConfig, ProducerConfig, ConsumerConfig)
IMPORTED: Final = ("class", "interceptor", "reporter", "serializer", "partitioner", "assignor", "callback", "strategy")
"""Words in the names of options whose values may name Python modules, which would be imported."""
OPTIONS: Final = [
    (cls, key) for cls in CONFIGS for key in sorted(cls.options) if not any(word in key for word in IMPORTED)
]
PATTERN: Final = ResourcePattern(ResourceType.TOPIC, "t")
LOGGER: Final = logging.getLogger("ottla")


def _refuses(*errors: type[Exception]) -> Callable[[Target], Target]:
    """Return a decorator for targets that may raise these errors."""

    def decorate(target: Target) -> Target:
        @functools.wraps(target)
        def call(data: bytes) -> None:
            with contextlib.suppress(*errors):
                target(data)

        return call

    return decorate


def _choice(data: bytes, count: int) -> tuple[int, bytes]:
    """Return a number below `count` from the first two bytes, and the other bytes."""
    return int.from_bytes(data[:2], "big") % count, data[2:]


@_refuses(MalformedMessageError)
def messages(data: bytes) -> None:
    number, body = _choice(data, len(MESSAGES))
    cls: Any = MESSAGES[number]
    version, body = _choice(body, len(cls.VERSIONS))
    decode(cls, body, cls.VERSIONS[version])


@_refuses(MalformedMessageError)
def request_headers(data: bytes) -> None:
    decode_request_header(data)


@_refuses(KafkaError)
def versioned_data(data: bytes) -> None:
    number, body = _choice(data, len(DATA))
    decode_versioned(DATA[number], body)


@_refuses(KafkaError)
def group_state(data: bytes) -> None:
    length, body = _choice(data, 256)
    state._membership().replay(body[:length], body[length:], live=False)


@_refuses(KafkaError)
def transaction_state(data: bytes) -> None:
    transaction_records.read_key(data)
    transaction_records.read_transaction("t", data)


@_refuses(KafkaError)
def remote_log_metadata(data: bytes) -> None:
    metadata_records.decode_event(data)


@_refuses(KafkaError)
def batches(data: bytes) -> None:
    for _ in split(data):
        pass
    for _ in records(data, check_crc=False):
        pass


@_refuses(KafkaError)
def produced(data: bytes) -> None:
    if len(data) < HEADER_BYTES:
        return
    batch = bytearray(data)
    batch[8:12] = (len(batch) - LOG_OVERHEAD).to_bytes(4, "big")
    batch[16] = 2
    reseal(batch, 0, len(batch))
    view, taken = validation.prepare(memoryview(batch), LogConfig(), 1_700_000_000_000)
    for one in taken:
        assert len(decode_records(view, one.start, one.header)) == one.header.count


@_refuses(KafkaError)
def old_messages(data: bytes) -> None:
    for header, start, _ in any_magic.split(data):
        any_magic.decode_records(data, start, header)


@_refuses(KafkaError)
def old_messages_converted(data: bytes) -> None:
    legacy_message_set.to_batches(data)
    down_converted(data, 0)


@_refuses(KafkaError)
def compressed(data: bytes) -> None:
    number, body = _choice(data, len(compression.CODECS))
    compression.decompress(number, body, 1 << 20)


def log_files(data: bytes) -> None:
    view, scanner = memoryview(data), Scanner(0, 0, check_crc=False, contiguous_from=0)
    while not scanner.damaged and len(view) - scanner.position >= scanner.needed:
        before = scanner.position, scanner.needed
        scanner.feed(view[scanner.position : scanner.position + max(scanner.needed, 100)])
        assert scanner.damaged or (scanner.position, scanner.needed) != before, "the walk gets nowhere"


def files_beside_logs(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "00000000000000000010.snapshot"
        path.write_bytes(data)
        for read in (
            lambda: checkpoints.read_offsets(path),
            LeaderEpochs(path).load,
            lambda: state.read_topic_id_in(path),
            lambda: ProducerStates(path.parent).load_snapshot(path),
            lambda: TransactionIndex(path).entries,
            lambda: _open_index(OffsetIndex(path, 10, 1 << 20)),
            lambda: _open_index(TimeIndex(path, 10, 1 << 20)),
        ):
            with contextlib.suppress(KafkaError):
                read()


def _open_index(index: OffsetIndex | TimeIndex) -> None:
    index.open(writable=False)
    try:
        index.sanity_check()
    finally:
        index.close()


@_refuses(KafkaError)
def server_properties(data: bytes) -> None:
    configs = properties.parse(data.decode("utf-8", "replace"))
    environment.configs_of({f"KAFKA_{name}": value for name, value in configs.items()})
    BrokerConfig.from_kafka(configs)


@_refuses(KafkaError)
def config_values(data: bytes) -> None:
    number, value = _choice(data, len(OPTIONS))
    cls, key = OPTIONS[number]
    cls.from_kafka({key: value.decode("utf-8", "replace")})


@_refuses(ValueError)
def jaas_configs(data: bytes) -> None:
    jaas.login(data.decode("utf-8", "replace"))


@_refuses(ValueError)
def principal_mapping(data: bytes) -> None:
    rules, _, name = data.decode("utf-8", "replace").partition("\0")
    if "*" not in rules and "+" not in rules and "{" not in rules:  # repeated groups of an administrator may take long
        principal_rules.mapped(principal_rules.principal_rules(rules), name)


ZNODES: Final[tuple[Callable[[bytes], object], ...]] = (
    lambda raw: znodes.topic_layout("t", raw),
    lambda raw: znodes.parse_configs("topics/t", raw),
    znodes.broker_of_event,
    znodes.changed_entity,
    lambda raw: znodes.acls_of(PATTERN, raw),
    znodes.changed_acls,
    znodes.feature_levels,
    lambda raw: store_reader.parse_request("/admin/reassign_partitions", raw),
    lambda raw: store_reader.partition_image(_znode(raw), (1, 2), (), ()),
    lambda raw: store_reader.broker_image(1, _znode(raw)),
    lambda raw: store_reader.configs_of(_znode(raw), "topics/t"),
    znode_watchers._topics,
    lambda raw: token_znodes.parse_token("t", raw),
    lambda raw: config_entities.quota_path({"user": config_entities.decoded(raw.decode("utf-8", "replace"))}),
)


def _znode(raw: bytes) -> ZNode:
    return cast(ZNode, SimpleNamespace(value=raw, version=0, created=0, modified=0))


def znode_values(data: bytes) -> None:
    number, raw = _choice(data, len(ZNODES))
    with contextlib.suppress(UnreadableNodeError):
        ZNODES[number](raw)
    with contextlib.suppress(ValueError, AttributeError, TypeError):  # a tool says that it cannot read the znode
        zk_client.broker_address(raw)


FRAGMENTS: Final = (
    "null", "true", "-1", "0.5", "1e999", "NaN", "99999999999999999999", '""', '"x"', r'"\ud800"', "[]", "{}", "[[]]",
    '{"a":1}', '["a","a"]', "1" * 400,
)  # fmt: skip
"""JSON that takes the place of a value."""


def _rendered(value: object, choices: Iterator[int]) -> str:
    """Return JSON with some values replaced by fragments; the choices decide which ones."""
    choice = next(choices, 255)
    if choice < len(FRAGMENTS):
        return FRAGMENTS[choice]
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_rendered(v, choices)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_rendered(item, choices) for item in value) + "]"
    return json.dumps(value)


def znode_values_replaced(data: bytes) -> None:
    """Read the JSON of a znode with some values replaced."""
    number, choices = _choice(data, len(ZNODES))
    with contextlib.suppress(ValueError):
        template = json.loads(seeds.ZNODES[number])
        znode_values(data[:2] + _rendered(template, iter(choices)).encode())


def token_claims(data: bytes) -> None:
    """Read a JWT with some values replaced in its claims."""
    claims = _rendered({"exp": 1, "scope": ["a"], "sub": "alice"}, iter(data))
    token = f"e30.{token_provider.b64url_encode(claims.encode())}."
    token_provider.expiry(token)
    sasl_oauthbearer(b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01")


def sasl_plain(data: bytes) -> None:
    server = PlainServer({"alice": "secret"})
    with contextlib.suppress(SaslAuthenticationFailedError):
        server.step(data)
    assert server.user is None or data.split(b"\0")[1:] == [b"alice", b"secret"]


def sasl_scram(data: bytes) -> None:
    first, _, final = data.partition(b"\n")
    server = ScramServer("SCRAM-SHA-256", {"alice": Credential(b"salt" * 4, b"\1" * 32, b"\2" * 32, 4096)}.get)
    with contextlib.suppress(SaslAuthenticationFailedError):
        server.step(first)
        server.step(final)
    assert server.user is None
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    client.first()
    if b"i=" not in first:  # many iterations take long
        with contextlib.suppress(SaslAuthenticationFailedError):
            client.final(first)
    with contextlib.suppress(ValueError):
        Credential.parse(data.decode("utf-8", "replace"))


def sasl_oauthbearer(data: bytes) -> None:
    def check(token: str) -> AuthenticatedUser:
        _, claims = jwt_validator._parts(token)
        jwt_validator.scopes(claims, "scope")
        return AuthenticatedUser("alice", jwt_validator._time(claims, "exp") or 0.0)

    server = OAuthBearerServer(check)
    with contextlib.suppress(SaslAuthenticationFailedError):
        server.step(data)
    with contextlib.suppress(InvalidTokenError):
        check(data.decode("utf-8", "replace"))
    token_provider.expiry(data.decode("utf-8", "replace"))


@_refuses(ValueError)
def certificate_names(data: bytes) -> None:
    subject_of(data)


@_refuses(ValueError)
def java_key_stores(data: bytes) -> None:
    read_jks(data, None)


TARGETS: Final[dict[str, Target]] = {
    target.__name__: target
    for target in (
        messages, request_headers, versioned_data, group_state, transaction_state, remote_log_metadata, batches,
        produced, old_messages, old_messages_converted, compressed, log_files, files_beside_logs, server_properties,
        config_values, jaas_configs, principal_mapping, znode_values, znode_values_replaced, token_claims, sasl_plain,
        sasl_scram, sasl_oauthbearer, certificate_names, java_key_stores,
    )
}  # fmt: skip

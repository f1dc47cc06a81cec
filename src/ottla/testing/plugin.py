"""The pytest plugin: fixtures for tests of programs that use Kafka (docs/testing.md).

`ottla_broker` is a broker in the test process, `ottla_cluster` three of them, `ottla_topic` a topic of the test.
`ottla_producer`, `ottla_consumer`, `ottla_share_consumer`, `ottla_admin` and their asyncio variants `ottla_aio_…`
create clients, which are closed at the end of the test. `ottla_faults` delays, loses and rejects requests;
`ottla_clock` advances the broker's clock.

Each xdist worker has its own broker on a free port, so that tests in different workers are independent. Brokers and
clients are not imported before a fixture is used.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

import pytest

if TYPE_CHECKING:
    from ottla.broker.embedded import Broker
    from ottla.testing.clients import (
        AdminFactory,
        AsyncAdminFactory,
        AsyncClients,
        AsyncConsumerFactory,
        AsyncProducerFactory,
        AsyncShareConsumerFactory,
        ConsumerFactory,
        ProducerFactory,
        ShareConsumerFactory,
        TopicFactory,
    )
    from ottla.testing.clock import BrokerClock
    from ottla.testing.faults import Faults

MAX_STEM: Final = 100
SCOPES: Final = ("session", "package", "module", "class", "function")
OPTIONS, SCOPE = "ottla_broker_options", "ottla_broker_scope"
BROKER, CLUSTER, CLOCK, FAULTS = "ottla_broker", "ottla_cluster", "ottla_clock", "ottla_faults"
CLUSTER_BROKERS: Final = 3
MEMORY_DIR: Final = "/dev/shm"
"""Linux's file system in memory."""
MEMORY_BYTES: Final = 2**30
"""Minimum number of free bytes in MEMORY_DIR for brokers to store their data there."""

Scope = Literal["session", "package", "module", "class", "function"]


class OwnBroker(NamedTuple):
    """The parameters of a broker that belongs to one test: its configs, the number of brokers, and whether the test may
    advance its clock.
    """

    options: Mapping[str, Any]
    brokers: int
    has_clock: bool


# Options and markers


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini options `ottla_broker_options` and `ottla_broker_scope`."""
    parser.addini(OPTIONS, "configs of the broker of ottla_broker, one name=value per line", "linelist", [])
    parser.addini(SCOPE, f"scope of ottla_broker: {', '.join(SCOPES)}", "string", "session")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker `ottla_broker`. Raises UsageError if the ini option `ottla_broker_scope` is invalid."""
    scope = config.getini(SCOPE)
    if scope not in SCOPES:
        raise pytest.UsageError(f"{SCOPE}: {scope!r} is not a scope: expected {', '.join(SCOPES)}")
    config.addinivalue_line(
        "markers",
        "ottla_broker(options, brokers=…): the test has a separate broker, with these configs in addition to those "
        "of ottla_broker_options; brokers: the number of brokers (default: 1, or 3 with ottla_cluster)",
    )


def _scope(fixture_name: str, config: pytest.Config) -> Scope:
    return cast("Scope", config.getini(SCOPE))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a separate broker to tests with the marker `ottla_broker`, and to tests that use `ottla_cluster` or
    `ottla_clock`. Raises UsageError for wrong arguments of the marker, and for a wrong override of the options.
    """
    names = metafunc.fixturenames
    if BROKER not in names:
        return
    _check_override(metafunc)
    marks = list(metafunc.definition.iter_markers(BROKER))
    if marks or CLUSTER in names or CLOCK in names:
        own = _own_broker(marks, names)
        metafunc.parametrize(BROKER, [own], indirect=True, scope="function", ids=[_id()])


def _check_override(metafunc: pytest.Metafunc) -> None:
    """Raise UsageError if a test module overrides the options although its broker is shared with other modules."""
    definitions = metafunc.definition._fixtureinfo.name2fixturedefs.get(OPTIONS, ())
    where = definitions[-1].baseid if definitions else ""
    scope = metafunc.config.getini(SCOPE)
    if ".py" in where and scope in ("session", "package"):
        raise pytest.UsageError(
            f"{OPTIONS}: {where} overrides it, but the broker is shared ({SCOPE}={scope}); move the fixture to a "
            f"conftest.py, or use `pytestmark = pytest.mark.{BROKER}({{…}})`"
        )


def _own_broker(marks: list[pytest.Mark], names: list[str]) -> OwnBroker:
    """Return the parameters of the broker that the markers describe. A marker closer to the test overrides the
    others.
    """
    options: dict[str, Any] = {}
    brokers = CLUSTER_BROKERS if CLUSTER in names else 1
    for mark in reversed(marks):
        configs, brokers = _mark_arguments(*mark.args, **{"brokers": brokers, **mark.kwargs})
        options |= configs
    return OwnBroker(options, brokers, CLOCK in names)


def _mark_arguments(*args: Any, options: Any = None, brokers: int = 1, **others: Any) -> tuple[Mapping[str, Any], int]:
    configs = (args[0] if args else options) or {}
    if len(args) > 1 or others or not isinstance(configs, Mapping) or not isinstance(brokers, int):
        raise pytest.UsageError(
            f"pytest.mark.{BROKER}: expected a dictionary of broker configs and brokers=, such as "
            f'@pytest.mark.{BROKER}({{"num.partitions": 3}}, brokers=3)'
        )
    return configs, brokers


def _id() -> Any:
    return getattr(pytest, "HIDDEN_PARAM", "own-broker")  # pytest 8.4


# Brokers


@pytest.fixture(scope=_scope)
def ottla_broker_options(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """Return the configs of the broker by Kafka's names, from the ini option `ottla_broker_options`. A `conftest.py`
    may override this fixture.
    """
    options = {}
    for line in request.config.getini(OPTIONS):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"{OPTIONS}: {line!r} is not name=value, such as num.partitions=3")
        options[name.strip()] = value.strip()
    return options


@pytest.fixture(scope=_scope)
def ottla_broker(request: pytest.FixtureRequest, ottla_broker_options: Mapping[str, Any]) -> Iterator[Broker]:
    """Yield a broker with temporary data. `ottla_broker.bootstrap_servers` is its address.

    By default, all tests of the session share it (ini option `ottla_broker_scope`). A test with the marker
    `ottla_broker`, or that uses `ottla_cluster` or `ottla_clock`, has a separate one.
    """
    from ottla.broker.embedded import Broker
    from ottla.clock import ShiftedClock
    from ottla.testing.cluster import Cluster

    own: OwnBroker = getattr(request, "param", None) or OwnBroker({}, 1, False)
    clock = ShiftedClock() if own.has_clock else None
    options = _checked({**ottla_broker_options, **own.options})
    kind = Broker if own.brokers == 1 else Cluster
    with (
        _temporary_directory() as data_dir,
        kind(options, data_dir=data_dir, brokers=own.brokers, clock=clock) as broker,
    ):
        yield broker


def _temporary_directory() -> AbstractContextManager[str]:
    """Return a temporary directory for the broker's data, as a context manager, in memory if there is room, where
    brokers start faster than on a disk.
    """
    import shutil
    import tempfile
    from pathlib import Path

    in_memory = Path(MEMORY_DIR)
    has_room = in_memory.is_dir() and shutil.disk_usage(in_memory).free >= MEMORY_BYTES
    return tempfile.TemporaryDirectory(prefix="ottla-", dir=in_memory if has_room else None, ignore_cleanup_errors=True)


def _checked(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the configs of a broker unchanged. Raises UsageError for an invalid one, and emits a PytestConfigWarning
    for each unknown one.
    """
    import warnings

    from ottla.config.broker.broker_config import BrokerConfig
    from ottla.errors import ConfigurationError

    for warning in BrokerConfig.unknown(options):
        warnings.warn(pytest.PytestConfigWarning(f"{OPTIONS}: {warning}"), stacklevel=1)
    try:
        BrokerConfig.from_kafka(options)
    except ConfigurationError as error:
        raise pytest.UsageError(
            f"{OPTIONS}: {error}; it is set by the fixture {OPTIONS}, the ini option {OPTIONS} or the marker {BROKER}"
        ) from None
    return options


@pytest.fixture
def ottla_cluster(ottla_broker: Broker) -> Broker:
    """Return a cluster for one test, with three brokers unless the marker `ottla_broker` has another number. In this
    test, `ottla_broker` is the same object.

    `kill_broker(1)`, `stop_broker(1)`, `start_broker(1)` and `restart_broker(1)` take a broker id;
    `move_leader("topic", partition)` makes another replica the leader of a partition.
    """
    if len(ottla_broker.nodes) < 2:
        raise pytest.UsageError(
            f"{CLUSTER}: there is only one broker; have the test or its fixtures take {CLUSTER} as an argument, and "
            f"remove brokers=1 from its marker"
        )
    return ottla_broker


@pytest.fixture
def ottla_bootstrap_servers(ottla_broker: Broker) -> str:
    """Return the addresses of the test's brokers, `host:port` separated by commas, for any client."""
    return ottla_broker.bootstrap_servers


@pytest.fixture
def ottla_clock(ottla_broker: Broker) -> BrokerClock:
    """Return the clock of the broker, which `ottla_clock.advance(3600)` advances by an hour. A test with this fixture
    has a separate broker.
    """
    from ottla.testing.clock import BrokerClock

    return BrokerClock(ottla_broker)


# Topics


@pytest.fixture
def ottla_topic(ottla_broker: Broker, request: pytest.FixtureRequest) -> str:
    """Return the name of a topic that no other test uses. The broker creates the topic when a producer or consumer uses
    it, unless auto.create.topics.enable is false.
    """
    return _unique_name(request)


@pytest.fixture
def ottla_create_topic(ottla_admin: AdminFactory, request: pytest.FixtureRequest) -> TopicFactory:
    """Return a function that creates a topic and returns its unique name: `ottla_create_topic(partitions=3)`."""
    from ottla.testing.clients import TopicFactory

    return TopicFactory(ottla_admin, lambda: _unique_name(request))


def _unique_name(request: pytest.FixtureRequest) -> str:
    stem = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:MAX_STEM]
    return f"{stem}-{uuid.uuid4().hex[:8]}"


# Clients


@pytest.fixture
def _ottla_clients(ottla_broker: Broker) -> Iterator[ExitStack]:
    """Yield the stack that closes the synchronous clients of the test at its end, before its broker stops."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def ottla_producer(ottla_bootstrap_servers: str, _ottla_clients: ExitStack) -> ProducerFactory:
    """Return a function that creates producers, which are closed at the end of the test:
    `ottla_producer(acks="all")`.
    """
    from ottla.testing.clients import ProducerFactory

    return ProducerFactory(ottla_bootstrap_servers, _ottla_clients)


@pytest.fixture
def ottla_consumer(ottla_bootstrap_servers: str, _ottla_clients: ExitStack) -> ConsumerFactory:
    """Return a function that creates consumers, which are closed at the end of the test:
    `ottla_consumer("topic", group_id="g")`.

    `auto_offset_reset` is by default "earliest".
    """
    from ottla.testing.clients import ConsumerFactory

    return ConsumerFactory(ottla_bootstrap_servers, _ottla_clients)


@pytest.fixture
def ottla_share_consumer(ottla_bootstrap_servers: str, _ottla_clients: ExitStack) -> ShareConsumerFactory:
    """Return a function that creates share consumers, which are closed at the end of the test:
    `ottla_share_consumer("topic", group_id="g")`.
    """
    from ottla.testing.clients import ShareConsumerFactory

    return ShareConsumerFactory(ottla_bootstrap_servers, _ottla_clients)


@pytest.fixture
def ottla_admin(ottla_bootstrap_servers: str, _ottla_clients: ExitStack) -> AdminFactory:
    """Return a function that creates admin clients, which are closed at the end of the test: `ottla_admin()`."""
    from ottla.testing.clients import AdminFactory

    return AdminFactory(ottla_bootstrap_servers, _ottla_clients)


@pytest.fixture
def _ottla_aio_clients(request: pytest.FixtureRequest, ottla_bootstrap_servers: str) -> Iterator[AsyncClients]:
    """Yield the asyncio clients of the test. Wrap the test function, so that it closes them as its last step, on its
    own event loop. Raises UsageError if it is not a coroutine function.
    """
    from ottla.testing.clients import AsyncClients

    node: pytest.Function = request.node
    test = node.obj
    if not iscoroutinefunction(test):
        raise pytest.UsageError(
            f"ottla_aio_…: {node.nodeid} is not a coroutine function; use ottla_producer, ottla_consumer or "
            "ottla_admin, or make it `async def` and install pytest-asyncio or anyio"
        )
    faults = cast("Faults", request.getfixturevalue(FAULTS)) if FAULTS in request.fixturenames else None
    clients = AsyncClients(ottla_bootstrap_servers, faults.clear if faults else lambda: None)
    node.obj = clients.closing(test)
    yield clients
    node.obj = test


@pytest.fixture
def ottla_aio_producer(_ottla_aio_clients: AsyncClients) -> AsyncProducerFactory:
    """Return a coroutine function that starts asyncio producers: `await ottla_aio_producer(acks="all")`."""
    from ottla.testing.clients import AsyncProducerFactory

    return AsyncProducerFactory(_ottla_aio_clients)


@pytest.fixture
def ottla_aio_consumer(_ottla_aio_clients: AsyncClients) -> AsyncConsumerFactory:
    """Return a coroutine function that starts asyncio consumers: `await ottla_aio_consumer("topic")`.

    `auto_offset_reset` is by default "earliest".
    """
    from ottla.testing.clients import AsyncConsumerFactory

    return AsyncConsumerFactory(_ottla_aio_clients)


@pytest.fixture
def ottla_aio_share_consumer(_ottla_aio_clients: AsyncClients) -> AsyncShareConsumerFactory:
    """Return a coroutine function that starts asyncio share consumers:
    `await ottla_aio_share_consumer("topic", group_id="g")`.
    """
    from ottla.testing.clients import AsyncShareConsumerFactory

    return AsyncShareConsumerFactory(_ottla_aio_clients)


@pytest.fixture
def ottla_aio_admin(_ottla_aio_clients: AsyncClients) -> AsyncAdminFactory:
    """Return a coroutine function that starts asyncio admin clients: `await ottla_aio_admin()`."""
    from ottla.testing.clients import AsyncAdminFactory

    return AsyncAdminFactory(_ottla_aio_clients)


# Faults


@pytest.fixture
def ottla_faults(ottla_broker: Broker, _ottla_clients: ExitStack) -> Iterator[Faults]:
    """Yield the faults of the test: `ottla_faults.on("Produce", topic="orders").lose_response()`.

    They are removed before the clients are closed. The test fails if a fault was applied to no request, unless it is
    optional, or if a step of a fault failed.
    """
    from ottla.testing.faults import Faults

    faults = Faults(ottla_broker)
    yield faults
    faults.clear()
    faults.check()

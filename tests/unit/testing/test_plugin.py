"""The pytest plugin in other projects: brokers, clients, markers and options."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ottla import Broker, ConfigResource, ConfigResourceType
from ottla.testing import plugin
from ottla.testing.clients import (
    AdminFactory,
    AsyncAdminFactory,
    AsyncConsumerFactory,
    AsyncProducerFactory,
    AsyncShareConsumerFactory,
    ConsumerFactory,
    ProducerFactory,
    ShareConsumerFactory,
    TopicFactory,
)
from ottla.testing.faults import Faults

pytest_plugins = ["pytester"]

FIXTURES = {
    "ottla_admin",
    "ottla_aio_admin",
    "ottla_aio_consumer",
    "ottla_aio_producer",
    "ottla_aio_share_consumer",
    "ottla_bootstrap_servers",
    "ottla_broker",
    "ottla_broker_options",
    "ottla_clock",
    "ottla_cluster",
    "ottla_consumer",
    "ottla_create_topic",
    "ottla_faults",
    "ottla_producer",
    "ottla_share_consumer",
    "ottla_topic",
}


def test_plugin_has_the_documented_fixtures() -> None:
    fixtures = {name for name, value in vars(plugin).items() if type(value).__name__ == "FixtureFunctionDefinition"}
    assert {name for name in fixtures if not name.startswith("_")} == FIXTURES


def test_consumer_fixture_reads_records_of_the_producer_fixture(
    ottla_producer: ProducerFactory, ottla_consumer: ConsumerFactory, ottla_topic: str
) -> None:
    ottla_producer(acks="all").send(ottla_topic, b"1").get(10)
    consumer = ottla_consumer(ottla_topic, group_id=ottla_topic, consumer_timeout_ms=5000)
    assert next(consumer).value == b"1"


def test_create_topic_fixture_creates_unique_names(
    ottla_create_topic: TopicFactory, ottla_admin: AdminFactory, ottla_bootstrap_servers: str
) -> None:
    names = [ottla_create_topic(partitions=3, configs={"cleanup.policy": "compact"}) for _ in range(2)]
    topics = ottla_admin(bootstrap_servers=ottla_bootstrap_servers).describe_topics(names)
    assert [len(topics[name].partitions) for name in names] == [3, 3]


async def test_asyncio_client_fixtures_are_started_and_connected(
    ottla_aio_producer: AsyncProducerFactory,
    ottla_aio_consumer: AsyncConsumerFactory,
    ottla_aio_admin: AsyncAdminFactory,
    ottla_topic: str,
) -> None:
    producer = await ottla_aio_producer()
    await (await producer.send(ottla_topic, b"1"))
    consumer = await ottla_aio_consumer(ottla_topic)
    assert (await anext(consumer)).value == b"1"
    assert ottla_topic in await (await ottla_aio_admin()).list_topics()


SHARE = {"share.auto.offset.reset": "earliest"}


def test_share_consumer_fixture_reads_records(
    ottla_producer: ProducerFactory,
    ottla_share_consumer: ShareConsumerFactory,
    ottla_admin: AdminFactory,
    ottla_topic: str,
) -> None:
    ottla_admin().alter_configs({ConfigResource(ConfigResourceType.GROUP, ottla_topic): SHARE})
    ottla_producer().send(ottla_topic, b"1").get(10)
    consumer = ottla_share_consumer(ottla_topic, group_id=ottla_topic)
    while not (records := consumer.poll(1000)):
        pass
    assert [record.value for batch in records.values() for record in batch] == [b"1"]


async def test_asyncio_share_consumer_fixture_is_started(
    ottla_aio_producer: AsyncProducerFactory,
    ottla_aio_share_consumer: AsyncShareConsumerFactory,
    ottla_aio_admin: AsyncAdminFactory,
    ottla_topic: str,
) -> None:
    admin = await ottla_aio_admin()
    await admin.alter_configs({ConfigResource(ConfigResourceType.GROUP, ottla_topic): SHARE})
    await (await ottla_aio_producer()).send_and_wait(ottla_topic, b"1")
    consumer = await ottla_aio_share_consumer(ottla_topic, group_id=ottla_topic)
    while not (records := await consumer.poll(1000)):
        pass
    assert len(records) == 1


@pytest.mark.ottla_broker({"num.partitions": 3})
def test_marker_starts_a_separate_broker_for_the_test(
    ottla_admin: AdminFactory, ottla_producer: ProducerFactory
) -> None:
    ottla_producer().send("orders", b"1").get(10)
    admin = ottla_admin()
    assert len(admin.describe_topics(["orders"])["orders"].partitions) == 3
    assert set(admin.list_topics()) == {"orders"}


@pytest.mark.ottla_broker({"default.replication.factor": 2}, brokers=2)
def test_marker_starts_a_separate_cluster_for_the_test(
    ottla_cluster: Broker, ottla_broker: Broker, ottla_create_topic: TopicFactory
) -> None:
    assert ottla_cluster is ottla_broker
    assert ottla_cluster.bootstrap_servers.count(":") == 2
    topic = ottla_create_topic(partitions=1)
    before = ottla_cluster.leader(topic)
    ottla_cluster.kill_broker(before)
    assert ottla_cluster.leader(topic) != before


@pytest.mark.parametrize("method", ["kill_broker", "stop_broker"])
def test_first_group_and_transaction_after_the_loss_of_a_broker_do_not_wait_for_it(
    method: str,
    ottla_cluster: Broker,
    ottla_producer: ProducerFactory,
    ottla_consumer: ConsumerFactory,
    ottla_create_topic: TopicFactory,
) -> None:
    topic = ottla_create_topic(partitions=1, replication_factor=3)
    getattr(ottla_cluster, method)(1)
    producer = ottla_producer(transactional_id="transfer", max_block_ms=20_000)
    producer.init_transactions()
    with producer.transaction():
        producer.send(topic, b"1")
    consumer = ottla_consumer(topic, group_id="readers", consumer_timeout_ms=20_000)
    assert next(consumer).value == b"1"


async def test_faults_end_before_asyncio_clients_are_closed(
    ottla_faults: Faults, ottla_aio_producer: AsyncProducerFactory, ottla_topic: str
) -> None:
    producer = await ottla_aio_producer()
    held = ottla_faults.on("Produce", topic=ottla_topic).hold()
    await producer.send(ottla_topic, b"1")
    await asyncio.to_thread(held.wait)


def test_importing_the_plugin_imports_no_other_ottla_module() -> None:
    program = (
        "import pytest, sys; before = set(sys.modules); import ottla.testing.plugin; "
        "print(sorted(name for name in sys.modules if name not in before))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "['ottla', 'ottla.testing', 'ottla.testing.plugin']"


PROJECT = """
import pytest

seen = []

def test_first(ottla_broker, ottla_admin):
    seen.append(ottla_broker)
    assert ottla_admin().describe_cluster().controller is not None

def test_second(ottla_broker, ottla_broker_options):
    assert seen == [ottla_broker]
    assert ottla_broker_options == {"num.partitions": "2", "log.segment.bytes": "1048576"}

@pytest.mark.ottla_broker({"num.partitions": 5})
def test_own(ottla_broker, ottla_producer, ottla_admin):
    assert ottla_broker not in seen
    ottla_producer().send("t", b"1").get(10)
    assert len(ottla_admin().describe_topics(["t"])["t"].partitions) == 5

@pytest.mark.asyncio
async def test_asyncio(ottla_aio_producer, ottla_topic):
    producer = await ottla_aio_producer()
    assert (await (await producer.send(ottla_topic, b"1"))).offset == 0
    seen.append(producer)

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_anyio(ottla_aio_producer, ottla_topic, anyio_backend):
    producer = await ottla_aio_producer()
    assert (await (await producer.send(ottla_topic, b"1"))).offset == 0
    seen.append(producer)

def test_closed():
    assert seen[-1]._closed and seen[-2]._closed

@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.ottla_broker
def test_parametrized(number, ottla_broker):
    assert ottla_broker not in seen
    seen.append(ottla_broker)
"""
INI = """
[pytest]
asyncio_mode = strict
asyncio_default_fixture_loop_scope = function
ottla_broker_options =
    num.partitions = 2
    log.segment.bytes = 1048576
"""


def test_project_shares_a_broker_except_for_marked_tests(pytester: pytest.Pytester) -> None:
    pytester.makefile(".ini", pytest=INI)
    pytester.makepyfile(PROJECT)
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:slipcover", "--strict-markers").assert_outcomes(
        passed=8
    )


MISTAKES = """
import pytest

@pytest.mark.ottla_broker({"num.partitions": 0})
def test_invalid_config(ottla_broker): ...

def test_not_async(ottla_aio_producer): ...

def test_unused_fault(ottla_faults):
    ottla_faults.on("Produce", topic="t").drop()

@pytest.mark.ottla_broker(brokers=1)
def test_no_cluster(ottla_cluster): ...
"""


def test_fixture_errors_name_option_value_and_remedy(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MISTAKES)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:slipcover", "-p", "no:asyncio")
    result.assert_outcomes(errors=4, passed=1)
    for line in (
        "*ottla_broker_options: num.partitions: 0*marker ottla_broker*",
        "*test_not_async is not a coroutine function; use ottla_producer*",
        "*on('Produce', topic='t').drop() matched no request*",
        "*ottla_cluster: there is only one broker*",
    ):
        result.stdout.fnmatch_lines([line])


@pytest.mark.parametrize(
    ("source", "ini", "message"),
    [
        ("import pytest\n@pytest.mark.ottla_broker(3)\ndef test(ottla_broker): ...", "", "*expected a dictionary of*"),
        ("def test(ottla_broker): ...", "ottla_broker_scope=ever", "ERROR: ottla_broker_scope: 'ever' is not a scope*"),
        (
            "import pytest\n@pytest.fixture(scope='session')\ndef ottla_broker_options(): return {}\n"
            "def test(ottla_broker): ...",
            "",
            "*ottla_broker_options: test_*.py overrides it, but the broker is shared*pytestmark = *",
        ),
    ],
    ids=["marker", "scope", "override"],
)
def test_invalid_declarations_end_the_test_session(
    pytester: pytest.Pytester, source: str, ini: str, message: str
) -> None:
    pytester.makefile(".ini", pytest=f"[pytest]\nasyncio_default_fixture_loop_scope = function\n{ini}\n")
    pytester.makepyfile(source)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:slipcover")
    assert result.ret != pytest.ExitCode.OK
    (result.stdout if any("ottla_" in line for line in result.outlines) else result.stderr).fnmatch_lines([message])


def test_unknown_option_of_the_broker_is_a_warning(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import pytest\n@pytest.mark.ottla_broker({'num.partition': 3})\ndef test_unknown(ottla_broker): ..."
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:slipcover", "-p", "no:asyncio")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*: Unknown broker config num.partition; did you mean num.partitions[?]"])


def test_broker_data_is_in_memory_if_there_is_space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plugin, "MEMORY_DIR", str(tmp_path))
    monkeypatch.setattr(plugin, "MEMORY_BYTES", 1)
    with plugin._temporary_directory() as directory:
        assert Path(directory).parent == tmp_path
    assert not Path(directory).exists()
    monkeypatch.setattr(plugin, "MEMORY_BYTES", 2**80)
    with plugin._temporary_directory() as directory:
        assert Path(directory).parent == Path(tempfile.gettempdir())

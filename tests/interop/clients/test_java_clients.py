"""Java clients from 0.8.2 to the newest, unmodified, against our broker; Java programs report the results."""

import uuid

import pytest
from tests.interop.java_clients import Record, run_java, topic_of

pytestmark = pytest.mark.interop

OLD, TRANSACTIONAL, ADMIN = "0.10.0.1", ("0.11.0.3", "1.1.1"), ("2.8.2",)
NEWEST = ("3.9.2", "4.4.0")


def codecs_of(version: str) -> str:
    return "none,gzip,snappy,lz4" + (",zstd" if version in (*ADMIN, *NEWEST) else "")


@pytest.mark.parametrize("version", [OLD, *TRANSACTIONAL, *ADMIN, *NEWEST])
def test_java_client_sends_and_reads_records_and_commits_offsets(
    bootstrap: str, version: str, compatibility: Record
) -> None:
    topic = topic_of(bootstrap)
    checked = run_java("kafka-clients", version, "Exchange", bootstrap, topic, codecs_of(version), with_=["Consumers"])
    compatibility("Java", version, "records and offsets", checked)


@pytest.mark.parametrize("version", [*TRANSACTIONAL, *ADMIN, *NEWEST])
def test_java_client_commits_and_aborts_transactions(bootstrap: str, version: str, compatibility: Record) -> None:
    topics = [topic_of(bootstrap), topic_of(bootstrap)]
    checked = run_java("kafka-clients", version, "Transact", bootstrap, *topics, with_=["Consumers"])
    compatibility("Java", version, "transactions", checked)


@pytest.mark.parametrize("version", [*TRANSACTIONAL, *ADMIN, *NEWEST])
def test_java_admin_client_manages_topics_and_configs(bootstrap: str, version: str, compatibility: Record) -> None:
    name = f"java-{uuid.uuid4().hex[:8]}"
    compatibility(
        "Java", version, "topics and options", run_java("kafka-clients", version, "Administrate", bootstrap, name)
    )


@pytest.mark.parametrize("version", [*ADMIN, *NEWEST])
def test_java_admin_client_manages_groups_quotas_credentials_and_log_dirs(
    bootstrap: str, version: str, compatibility: Record
) -> None:
    name = f"java-{uuid.uuid4().hex[:8]}"
    checked = run_java("kafka-clients", version, "Operate", bootstrap, name, with_=["Consumers"])
    compatibility("Java", version, "operation", checked)


@pytest.mark.parametrize("version", NEWEST)
def test_newest_calls_of_java_clients(bootstrap: str, version: str, compatibility: Record) -> None:
    name = f"java-{uuid.uuid4().hex[:8]}"
    checked = run_java("kafka-clients", version, "Newest", bootstrap, name, with_=["Consumers", "Transact"])
    compatibility("Java", version, "the newest calls", checked)


@pytest.mark.parametrize("version", NEWEST)
def test_java_consumers_share_a_group_of_the_consumer_protocol(
    bootstrap: str, version: str, compatibility: Record
) -> None:
    topic = topic_of(bootstrap)
    checked = run_java("kafka-clients", version, "Members", bootstrap, topic, with_=["Consumers"])
    compatibility("Java", version, "group.protocol=consumer", checked)


def test_scala_producer_and_simple_consumer_of_0_8_2(bootstrap: str, compatibility: Record) -> None:
    topic = topic_of(bootstrap, 5)
    checked = run_java("kafka_2.10", "0.8.2.2", "Classic", bootstrap, topic, "5")
    compatibility("Java", "0.8.2.2", "Scala producer and SimpleConsumer", checked)

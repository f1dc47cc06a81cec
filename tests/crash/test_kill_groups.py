"""kill -9 of the broker with active groups: members of both protocols continue, and no record is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.process import BrokerProcess
from tests.interop.group_members import QUICK, Member, read_all, shared, until

from ottla import KafkaAdminClient, KafkaProducer

pytestmark = [pytest.mark.slow, pytest.mark.interop]

TOPIC = GROUP = "kept"
ROUNDS = 4


def send(bootstrap: str, values: list[bytes], count: int) -> None:
    """Send numbered records, and wait until all of them are acknowledged."""
    with KafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        new = [b"%d" % (len(values) + i) for i in range(count)]
        futures = [producer.send(TOPIC, value) for value in new]
        for future in futures:
            future.get(30)
        values += new


def members_of(bootstrap: str) -> set[str]:
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        group = admin.describe_consumer_groups([GROUP])[GROUP]
    return {member.member_id for member in group.members}


@pytest.mark.parametrize("protocols", [("consumer", "consumer"), ("consumer", "classic")], ids="-".join)
def test_members_continue_after_the_broker_is_killed(tmp_path: Path, protocols: tuple[str, ...]) -> None:
    pytest.importorskip("confluent_kafka")
    sent: list[bytes] = []
    with BrokerProcess(tmp_path, **QUICK, **{"num.partitions": 6}) as broker:
        send(broker.bootstrap, sent, 100)
        members = [Member(broker.bootstrap, GROUP, TOPIC, protocol) for protocol in protocols]
        try:
            until(lambda: shared(*members), "the members do not share")
            before = members_of(broker.bootstrap)
            for _ in range(ROUNDS):
                send(broker.bootstrap, sent, 100)
                broker.kill()
                broker.start()
                assert members_of(broker.bootstrap) == before, "the restarted broker has other members"
                send(broker.bootstrap, sent, 100)
                read_all(sent, *members)
            assert shared(*members)
        finally:
            for member in members:
                member.close()

"""A program that test_upgrade.py runs with the code of one of two versions: it writes to a data directory or reads it.

program.py write DIR ROUND: a topic with records, a compacted topic, a group with offsets, transactions that are
committed, aborted and open, configs, an ACL and a SCRAM user. program.py read DIR prints all of it as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ottla import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    Broker,
    ConfigResource,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewTopic,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    TopicPartition,
    UserScramCredentialUpsertion,
)

OPTIONS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "authorizer.class.name": "AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
VISITS, PRICES = TopicPartition("visits", 0), TopicPartition("prices", 0)


def write(broker: Broker, turn: int) -> None:
    where = broker.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=where) as admin:
        if turn == 0:
            compact = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
            topics = [NewTopic("visits", 1, 1), NewTopic("prices", 1, 1, topic_configs=compact)]
            admin.create_topics(topics, wait_for_metadata=True)
        admin.alter_configs([ConfigResource("topic", "visits", {"retention.ms": str(10**9 + turn)})])
        resource = ResourcePattern(ResourceType.TOPIC, f"t{turn}", ACLResourcePatternType.LITERAL)
        admin.create_acls([ACL("User:ann", "*", ACLOperation.READ, ACLPermissionType.ALLOW, resource)])
        admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(f"u{turn}", ScramMechanism.SCRAM_SHA_256, "pw")]
        )
    with KafkaProducer(bootstrap_servers=where) as producer:
        for n in range(5):
            producer.send("visits", b"%d.%d" % (turn, n), partition=0)
            producer.send("prices", b"%d" % turn, key=b"%d" % n, partition=0)
    with KafkaProducer(bootstrap_servers=where, transactional_id="transfers") as producer:
        producer.init_transactions()  # aborts the open transaction of the other version
        for outcome in ("committed", "aborted"):
            producer.begin_transaction()
            producer.send("visits", f"{turn} {outcome}".encode(), partition=0)
            producer.flush()
            producer.commit_transaction() if outcome == "committed" else producer.abort_transaction()
    consumer = KafkaConsumer(
        "visits", bootstrap_servers=where, group_id="readers", auto_offset_reset="earliest", enable_auto_commit=False
    )
    with consumer:
        for _ in range(3):
            next(consumer)
        consumer.commit()
    left_open = KafkaProducer(bootstrap_servers=where, transactional_id="transfers", transaction_timeout_ms=600_000)
    left_open.init_transactions()
    left_open.begin_transaction()
    left_open.send("visits", b"%d open" % turn, partition=0).get(10)


def read(broker: Broker) -> dict[str, Any]:
    where = broker.bootstrap_servers
    with KafkaConsumer(
        bootstrap_servers=where, group_id="readers", isolation_level="read_committed", enable_auto_commit=False
    ) as consumer:
        consumer.assign([VISITS])
        committed = consumer.committed(VISITS)
        end = consumer.end_offsets([VISITS])[VISITS]  # the last stable offset
        consumer.seek_to_beginning()
        visits: list[str] = []
        while consumer.position(VISITS) < end:
            visits += [row.value.decode() for rows in consumer.poll(timeout_ms=1000).values() for row in rows]
    with KafkaAdminClient(bootstrap_servers=where) as admin:
        (configs,) = admin.describe_configs([ConfigResource("topic", "visits")]).values()
        return {
            "visits": visits,
            "committed": committed,
            "open": admin.describe_transactions(["transfers"])["transfers"].state,
            "retention": configs["retention.ms"].value,
            "acls": sorted(acl.resource_pattern.resource_name for acl in admin.describe_acls()),
            "users": sorted(admin.describe_user_scram_credentials()),
        }


def main() -> None:
    what, directory, *rest = sys.argv[1:]
    with Broker({**OPTIONS, "log.dirs": directory}) as broker:
        if what == "write":
            write(broker, int(rest[0]))
        else:
            print(json.dumps(read(broker)))


if __name__ == "__main__":
    main()

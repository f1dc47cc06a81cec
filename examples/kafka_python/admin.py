"""Topics and groups with kafka-python's methods. Their results are typed here (see docs/from-kafka-python.md)."""

import sys

from ottla import ConfigResource, KafkaAdminClient, NewTopic, OffsetSpec, TopicPartition


def main(servers: str = "localhost:9092", topic: str = "invoices") -> None:
    """Create, describe, change and delete a topic."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic(name=topic, num_partitions=2, replication_factor=1)])
    admin.create_partitions({topic: 3})
    admin.wait_for_topics([topic])
    print(topic in admin.list_topics(), len(admin.describe_topics([topic])[topic].partitions))

    admin.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": "3600000"})])
    for entries in admin.describe_configs([ConfigResource("TOPIC", topic, ["retention.ms"])]).values():
        print("retention.ms =", entries["retention.ms"].value)

    ends = admin.list_partition_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})
    print("partition 0 ends at", ends[TopicPartition(topic, 0)].offset)
    print("groups:", [group.group_id for group in admin.list_groups()])

    admin.delete_topics([topic])
    admin.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

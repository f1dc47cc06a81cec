"""The three clients on one event loop: create a topic, send records in one task and read them in another.

No thread is started, and any call that waits can be cancelled.
"""

import asyncio
import sys

from ottla import NewTopic, aio

COUNT = 20


async def send(servers: str, topic: str) -> None:
    """Send some records, and wait for all acknowledgements together."""
    async with aio.KafkaProducer(bootstrap_servers=servers) as producer:
        futures = [await producer.send(topic, b"%d" % number, key=b"k") for number in range(COUNT)]
        acknowledged = await asyncio.gather(*futures)
        print(f"sent to offsets {acknowledged[0].offset} to {acknowledged[-1].offset}")


async def read(servers: str, topic: str) -> None:
    """Read the same number of records."""
    values = []
    async with aio.KafkaConsumer(
        topic, bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            values.append(record.value)
            if len(values) == COUNT:
                await consumer.commit()
                break
    print(f"read {values[0]!r} to {values[-1]!r}")


async def main(servers: str = "localhost:9092", topic: str = "numbers") -> None:
    """Create the topic, then send and read concurrently."""
    async with aio.KafkaAdminClient(bootstrap_servers=servers) as admin:
        if topic not in await admin.list_topics():
            await admin.create_topics([NewTopic(topic, 1, 1)], wait_for_metadata=True)
    await asyncio.wait_for(asyncio.gather(send(servers, topic), read(servers, topic)), timeout=60)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""Assignment of partitions to the threads of a 0.8 group. Each member computes its part of the assignment, without
communication.

Range assigns each topic separately, with the partitions in the order of their numbers and the threads in the order of
their names. With P partitions and T threads, each thread gets P // T consecutive partitions, and the first P % T
threads get one more: four partitions and three threads result in 0,1 | 2 | 3. (Some articles say that each thread gets
ceil(P / T) partitions, which would be 0,1 | 2,3 | none.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from ottla.errors import KafkaError
from ottla.legacy.consumer.consumer_config import RANGE, ROUND_ROBIN
from ottla.legacy.consumer.topic_count import ConsumerThreadId
from ottla.legacy.producer.partitioner import java_hash
from ottla.model import TopicPartition

Threads = Mapping[str, Sequence[ConsumerThreadId]]


class AssignmentContext(NamedTuple):
    """The input of an assignor: this member's id, the threads of all members, and the partitions to assign."""

    consumer_id: str
    threads: Threads
    """The threads of all members, by topic, sorted by name."""
    partitions: Mapping[str, Sequence[int]]
    """The partitions of the topics that this member subscribes to, sorted by number."""


Decision = dict[TopicPartition, ConsumerThreadId]
"""An assignment: the partitions of this member, with the thread for each. Threads without a partition are idle."""


def by_range(context: AssignmentContext) -> Decision:
    """Assign consecutive partitions of each topic to each thread of this member."""
    decision: Decision = {}
    for topic, partitions in context.partitions.items():
        threads = context.threads[topic]
        each, more = divmod(len(partitions), len(threads))
        for position, thread in enumerate(threads):
            if thread.consumer == context.consumer_id:
                start = each * position + min(position, more)
                count = each + (position < more)
                decision |= {TopicPartition(topic, p): thread for p in partitions[start : start + count]}
    return decision


def round_robin(context: AssignmentContext) -> Decision:
    """Assign the partitions of all topics to all threads in turn, in the order of the Java hashes of the partitions'
    names (`[topic,partition]`), and return those of this member.

    Raises KafkaError if the topics that members subscribe to do not all have the same threads. A member that subscribes
    to no topic is assigned no partitions, without this check.
    """
    if not context.partitions:
        return {}
    thread_ids = list(context.threads.values())
    if any(threads != thread_ids[0] for threads in thread_ids):
        raise KafkaError(
            "partition.assignment.strategy: roundrobin requires that all members subscribe to the same"
            " topics, and that each member has the same number of streams for every topic"
        )
    every = [TopicPartition(topic, p) for topic, partitions in context.partitions.items() for p in partitions]
    every.sort(key=lambda tp: java_hash(f"[{tp.topic},{tp.partition}]"))
    pairs = zip(every, cycle(thread_ids[0]), strict=False)
    return {tp: thread for tp, thread in pairs if thread.consumer == context.consumer_id}


ASSIGNORS: Mapping[str, Callable[[AssignmentContext], Decision]] = {RANGE: by_range, ROUND_ROBIN: round_robin}
"""The assignors by the values of partition.assignment.strategy."""

"""Assignment of partitions to the threads of a 0.8 group. Pure: every member computes the same assignment.

Range: partitions by number, threads by text; of P partitions and T threads each thread takes P // T in a row, the first
P % T one more. (The articles give ceil(P / T) to each until nothing is left: the same where T divides P, but their own
example of four partitions for three threads is 0,1 | 2 | 3, as here, not 0,1 | 2,3 | none.)
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
    """A member's view of its group for an assignment."""

    consumer_id: str
    threads: Threads
    """The threads of all members by topic, sorted by their text."""
    partitions: Mapping[str, Sequence[int]]
    """The partitions of the topics that this member subscribes to, sorted."""


Decision = dict[TopicPartition, ConsumerThreadId]
"""The partitions of this member's threads. A thread without one stays idle."""


def by_range(context: AssignmentContext) -> Decision:
    """Assign neighbouring partitions to the same thread, topic by topic."""
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
    """Assign all partitions, in the order of the Java hashes of their texts, to all threads in turn.

    Raises KafkaError unless all members subscribe to the same topics with the same number of threads.
    """
    if not context.partitions:
        return {}
    thread_ids = list(context.threads.values())
    if any(threads != thread_ids[0] for threads in thread_ids):
        raise KafkaError(
            "partition.assignment.strategy: roundrobin needs members that subscribe to the same topics, with as many"
            " streams for each"
        )
    every = [TopicPartition(topic, p) for topic, partitions in context.partitions.items() for p in partitions]
    every.sort(key=lambda tp: java_hash(f"[{tp.topic},{tp.partition}]"))
    pairs = zip(every, cycle(thread_ids[0]), strict=False)
    return {tp: thread for tp, thread in pairs if thread.consumer == context.consumer_id}


ASSIGNORS: Mapping[str, Callable[[AssignmentContext], Decision]] = {RANGE: by_range, ROUND_ROBIN: round_robin}
"""Assignors by the value of partition.assignment.strategy."""

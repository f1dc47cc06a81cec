"""A whole cluster in one process on virtual time: brokers, ZooKeeper and clients. A seed decides each of their steps.

The production code runs unchanged. The simulation replaces the parts of the operating system that it uses: the event
loop's time (`event_loop`), sockets (`network`), files (`disk`), random bytes and threads (`system`), and ZooKeeper's
client library (`zookeeper`). As in FoundationDB's simulation, a seed that shows a failure reproduces it.
"""

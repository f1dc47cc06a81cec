"""A whole cluster in one process on virtual time: brokers, ZooKeeper and clients. A seed decides each of their steps.

The production code runs unchanged. The simulation replaces what it uses of the operating system: the event loop's time
(`event_loop`), sockets (`network`), files (`disk`), random bytes and threads (`system`), and ZooKeeper's client library
(`zookeeper`). The idea is FoundationDB's: a seed that shows a failure reproduces it.
"""

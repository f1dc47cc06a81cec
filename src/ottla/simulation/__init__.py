"""A whole cluster in one process on virtual time: brokers, a metadata store and clients. A seed decides each of their
steps.

The production code runs unchanged, apart from a few functions that are wrapped to check or record what they do. The
simulation replaces the parts of the system that it uses, such as the event loop
(`event_loop`), sockets (`network`), files (`disk`), clocks and random bytes (`system`), threads (`workers`), and
ZooKeeper's client library (`stores.zookeeper`). As in FoundationDB's simulation, a seed that shows a failure reproduces
it.
"""

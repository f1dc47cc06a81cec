"""A whole cluster in one process on virtual time: brokers, ZooKeeper and clients whose every step is decided by a seed.

The production code runs unchanged. What it would obtain from the operating system comes from here instead: the event
loop's time (`event_loop`), sockets (`network`), files (`disk`), random bytes and threads (`system`), and ZooKeeper's
client library (`zookeeper`). The idea is FoundationDB's: a failure is a number, and the number replays it.
"""

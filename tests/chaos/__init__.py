"""Three brokers under load, while what can break is broken, and what was promised is checked.

Their metadata is in a real ZooKeeper or in their embedded metadata store.

    pytest tests/chaos                                          a short run of Ottla on each metadata store
    OTTLA_CHAOS_RUNS=100 OTTLA_CHAOS_SECONDS=60 pytest tests/chaos/test_chaos.py
    OTTLA_CHAOS_PEER=kafka pytest tests/chaos/test_chaos.py     the same script against Apache Kafka 3.9.2
    python -m tests.chaos.run --peer embedded --seconds 60 --seed 7
    python -m tests.chaos.run --peer kafka --seconds 60 --seed 7 --kinds kill,restart
    python -m tests.chaos.compare RESULTS                       how long each kind of fault was felt, side by side

The seed determines a run: which faults, in which order, on which broker, for how long. It is printed first; a run
that fails keeps its directory (logs, data, what was seen) and prints its path. Results are kept as JSON in
OTTLA_CHAOS_RESULTS, where that is set.

- `links`: TCP proxies that can be cut; each broker reaches the others and ZooKeeper through links of its own.
- `peers`: how a broker of Ottla or of Apache Kafka is configured and started.
- `cluster`: ZooKeeper, brokers and links; `health`, `tree`: what it says of itself.
- `faults`: the kinds of faults, as a table, and the deck they are drawn from.
- `sending`: idempotent producers of librdkafka, Java and Ottla; `transfers`, `members`: transactions and a group, of
  librdkafka.
- `history`: what the load has seen; `reading`: what the logs say in the end, to clients; `replicas`: and on disk.
- `checkers`: one function per promise, from the history to what is wrong with it; `test_checkers` lets each fail.
- `unavailability`: the longest time without an acknowledged record, per partition and fault.

There are no tricks that need root, and no host names: a link's source is found by the process that owns the socket.
"""

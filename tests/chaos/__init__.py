"""Three brokers under load while faults are injected, and checks of their guarantees.

Their metadata is in a real ZooKeeper or in their embedded metadata store.

    pytest tests/chaos                                          a short run of Ottla on each metadata store
    OTTLA_CHAOS_RUNS=100 OTTLA_CHAOS_SECONDS=60 pytest tests/chaos/test_chaos.py
    OTTLA_CHAOS_PEER=kafka pytest tests/chaos/test_chaos.py     the same with Apache Kafka 3.9.2
    python -m tests.chaos.run --peer embedded --seconds 60 --seed 7
    python -m tests.chaos.run --peer kafka --seconds 60 --seed 7 --kinds kill,restart
    python -m tests.chaos.compare RESULTS                       compare the unavailability after each kind of fault

The seed determines a run: which faults, in which order, on which broker, for how long. It is printed first; a run
that fails keeps its directory (logs, data, history) and prints its path. Results are written as JSON to
OTTLA_CHAOS_RESULTS, if that is set.

- `links`: TCP proxies that can be cut; each broker connects to the others and to ZooKeeper through its own links.
- `peers`: how a broker of Ottla or of Apache Kafka is configured and started.
- `cluster`: ZooKeeper, brokers and links; `health`, `tree`: the state that it reports.
- `faults`: the kinds of faults, as a table, and the random sequence of faults.
- `sending`: idempotent producers of librdkafka, Java and Ottla; `transfers`, `members`: transactions and a group, of
  librdkafka.
- `history`: what the load has observed; `reading`: the final content of the topics; `replicas`: the logs on disk.
- `checkers`: one function per guarantee, which returns the violations in a history; `test_checkers` lets each fail.
- `unavailability`: the longest time without an acknowledged record, per partition and fault.

Neither root nor host names are necessary: the source of a link is identified by the process that owns the socket.
"""

"""State: durable named values with compare-and-set, from Mesos, on storages that can be exchanged.

    state = State(storage)                                      state.py: fetch, store, expunge, names
        storage.get, set, expunge, names                        storage.py: the contract; storages/: the implementations
    records.load, update                                        records.py: a value that is a map, stored by what has changed

| storage | module | compares by |
|---|---|---|
| memory | `storages/memory.py` | version |
| RocksDB, one process | `storages/rocks.py` | version, under a lock |
| Mesos' replicated log by itself | `storages/replicated_log.py` | version, by the one writer of the log |
| ZooKeeper, any | `storages/zookeeper.py` | a znode named by the version |
| database over the virtual log | `storages/virtual_log.py` | version, in `apply` of each replica (`core/variables.py`) |
"""

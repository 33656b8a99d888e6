"""The tree of znodes: a pure state machine on the log with ZooKeeper's semantics."""

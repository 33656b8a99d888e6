"""A tree of znodes with ZooKeeper's semantics, as a state machine on the log."""

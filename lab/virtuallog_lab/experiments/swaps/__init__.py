"""Experiments: the cost of a live swap to a client (`swap`), and the experiment of Delos: from ZooKeeper to a native loglet, live (`delos`)."""

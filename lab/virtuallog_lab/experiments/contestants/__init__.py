"""Experiment: appends beside writes of etcd, ZooKeeper and PySyncObj under the same load (`peers`), and how each of these systems is started."""

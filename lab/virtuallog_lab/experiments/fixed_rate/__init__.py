"""Experiment: latency under a fixed load, in an open loop, beside etcd and ZooKeeper (`fixed_rate`)."""

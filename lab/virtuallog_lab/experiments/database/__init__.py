"""Experiments: the database beside ZooKeeper (`zookeeper_comparison`), and the cost of its commands without a log (`command_cost`)."""

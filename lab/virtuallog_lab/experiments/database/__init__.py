"""Experiments: the database beside ZooKeeper (`zookeeper_comparison`), the cost of its commands without a log (`command_cost`), and
the life of a killed client's ephemerals (`session_expiry`).
"""

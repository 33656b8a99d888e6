"""Raft replicas as a system to explore."""

"""Drivers of the raft kind: tasks, timers, the write-ahead log and calls around the pure core."""

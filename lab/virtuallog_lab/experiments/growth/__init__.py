"""Experiment: memory, disk, restarts, reads and throughput of a log as it grows (`growth`)."""

"""Scenarios of a whole cluster: the main one under load and faults, and directed ones in which nodes or disks fail."""

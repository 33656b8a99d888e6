"""Simulated ports: network, TCP streams, disks, clocks, ZooKeeper and processes.

They fail as a seed says and run on a simulated clock. Imports trio, the ports and nothing of the
checkers.
"""

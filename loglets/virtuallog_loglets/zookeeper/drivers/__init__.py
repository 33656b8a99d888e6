"""Drivers of a ZooKeeperLoglet over the znodes port, and the port's kazoo adapter.

Append, read, tail check, trim and release. May import core and config.
"""

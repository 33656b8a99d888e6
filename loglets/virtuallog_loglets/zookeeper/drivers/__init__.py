"""Drivers of a ZooKeeperLoglet: append, read, tail check, trim and release over the znodes port, and its kazoo adapter. May import core and config."""

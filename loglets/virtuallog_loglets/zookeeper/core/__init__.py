"""Pure cores of a ZooKeeperLoglet: znode layout, records in znodes, writer of a session.

No tasks, clocks or I/O.
"""

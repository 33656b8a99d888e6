"""Pure cores of a ZooKeeperLoglet: znode layout, records in znodes and the writer of a session. No tasks, clocks or I/O."""

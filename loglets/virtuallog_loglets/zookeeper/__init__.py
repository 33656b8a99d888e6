"""ZooKeeperLoglet: a ZooKeeper orders and stores the batches; no node of the cluster has a part in it (Delos, section 4.2.2).

`layout.py` says where the znodes are, `records.py` what they hold, `writer.py` (pure) how a session appends once and in order.
Everything goes over the port `virtuallog.contract.znodes`; docs/internals/protocols/zookeeper.md tells why it is safe.
"""

from virtuallog_loglets.zookeeper.provider import ZooKeeperProvider

__all__ = ["ZooKeeperProvider"]

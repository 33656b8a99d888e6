"""Loglet in a ZooKeeper, which orders and stores the batches; no node of the cluster takes part
(Delos, section 4.2.2).

The life of an append:

    1. loglet.py                 `ZooKeeperLoglet.append` passes the batch on
    2. core/writer.py            `ZooKeeperWriter.offer` puts it into the next transaction of its session
    3. drivers/writer_driver.py  sends the transaction: it checks the seal, sets the writer's fence and creates the slot
    4. core/writer.py            `committed` acknowledges the batches once ZooKeeper has answered

`core/layout.py` has the paths of the znodes, `core/records.py` their contents. Tail first, seal bit
second: `drivers/tail_check.py`. Everything goes over the port `virtuallog.contract.znodes`.
docs/internals/protocols/zookeeper.md explains why it is safe.
"""

from virtuallog_loglets.zookeeper.provider import ZooKeeperProvider

__all__ = ["ZooKeeperProvider"]

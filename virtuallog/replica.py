"""A replica of a cluster's database inside a program, for local reads and watches: `open_replica`.

    async with open_replica("cluster/cluster.toml", "replica") as client:
        await client.get("/greeting")

A front door only: nothing else of `virtuallog` imports it, as it brings the database and RocksDB along.
"""

from virtuallog_database.client.passive_replica import open_replica

__all__ = ["open_replica"]

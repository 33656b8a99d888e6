"""A replica of a cluster's database inside a program, for local reads and watches: `open_replica`.

    async with open_replica("cluster/cluster.toml", "replica") as client:
        await client.get("/greeting")

A facade: re-exports only. No other module of the project imports it, as it imports the database and RocksDB.
"""

from virtuallog_database.client.passive_replica import open_replica

__all__ = ["open_replica"]

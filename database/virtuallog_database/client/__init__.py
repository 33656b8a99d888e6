"""Python client of the database, as `virtuallog.embedded`, a node or your own replica hands it out.

    async with virtuallog.embedded.open_embedded("data") as client: ...       a database in this process
    async with virtuallog.replica.open_replica("cluster.toml", "data") as client: ...       a replica of a cluster's

    await client.create("/a", b"1")                               linearizable; returns once this replica shows it
    data, stat = await client.get("/a")                           local: at once, perhaps stale
    data, stat = await client.get("/a", linearizable=True)        shows every write completed before the call
    async with client.watch("/a", recursive=True) as changes: ...
    async with client.session(timeout_seconds=10) as session: ... ephemerals, as long as the block
    runs

Semantics are ZooKeeper's (docs/reference/promises.md); errors are typed (`errors`).
"""

from virtuallog_database.client.client import DatabaseClient, Node, Session
from virtuallog_database.client.database_handle import DatabaseHandle
from virtuallog_database.client.errors import (
    BadArgumentsError,
    BadVersionError,
    DatabaseError,
    InvalidAclError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    QuotaExceededError,
    SessionExpiredError,
    TransactionError,
)
from virtuallog_database.client.transaction import Transaction
from virtuallog_database.client.watch_stream import Changed, Missed, WatchStream

__all__ = [
    "DatabaseClient",
    "DatabaseHandle",
    "Session",
    "Transaction",
    "Node",
    "WatchStream",
    "Changed",
    "Missed",
    "DatabaseError",
    "NoNodeError",
    "NodeExistsError",
    "BadVersionError",
    "NotEmptyError",
    "NoAuthError",
    "NoChildrenForEphemeralsError",
    "SessionExpiredError",
    "QuotaExceededError",
    "InvalidAclError",
    "BadArgumentsError",
    "TransactionError",
]

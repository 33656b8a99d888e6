"""The tree for Python programs: what `server.embedded`, a node or a replica of your own gives you to work with.

    async with server.embedded.open_embedded("data") as client: ...       the tree in this process
    async with server.embedded.open_replica("cluster.toml", "data") as client: ...       a replica of a cluster's tree

    await client.create("/a", b"1")                               linearizable; returned once this replica shows it
    data, stat = await client.get("/a")                           local: at once, perhaps older than what others have written
    data, stat = await client.get("/a", linearizable=True)        shows everything that was completed before the call
    async with client.watch("/a", recursive=True) as changes: ...
    async with client.session(timeout_seconds=10) as session: ... ephemerals, as long as the block runs

Semantics are ZooKeeper's, as docs/promises.md has them; errors are typed (`errors`).
"""

from database.kv.client.access import Access
from database.kv.client.client import KeyValueClient, Node
from database.kv.client.errors import (
    BadArgumentsError,
    BadVersionError,
    InvalidAclError,
    KeyValueError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    QuotaExceededError,
    SessionExpiredError,
    TransactionError,
)
from database.kv.client.sessions import Session
from database.kv.client.transactions import Transaction
from database.kv.client.watching import Changed, Missed, WatchStream

__all__ = [
    "KeyValueClient",
    "Access",
    "Session",
    "Transaction",
    "Node",
    "WatchStream",
    "Changed",
    "Missed",
    "KeyValueError",
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

"""What a database tells about itself."""

from __future__ import annotations

from virtuallog.metrics import Family, gauge
from virtuallog_database.kv.expiry import Expiry
from virtuallog_database.kv.tree import Tree
from virtuallog_database.kv.watches import Watches


def families(tree: Tree, watches: Watches, expiry: Expiry, outstanding: int) -> list[Family]:
    """As of now; the counters of the tree are part of the state, so nothing is counted for it."""
    meta = tree.meta
    return [
        gauge("virtuallog_database_zxid", "Number of the last command that this replica has applied.", meta.zxid),
        gauge("virtuallog_database_znodes", "Znodes in the tree.", meta.znodes),
        gauge("virtuallog_database_ephemerals", "Znodes that go with their sessions.", meta.ephemerals),
        gauge("virtuallog_database_sessions", "Sessions of all servers together.", meta.sessions),
        gauge("virtuallog_database_attached_sessions", "Sessions that this server serves.", expiry.attached),
        gauge("virtuallog_database_data_bytes", "Bytes of data in all znodes.", meta.data_bytes),
        gauge("virtuallog_database_watches", "Watches that clients of this server have set.", watches.count),
        gauge("virtuallog_database_outstanding_commands", "Proposed by this server, and not applied.", outstanding),
    ]

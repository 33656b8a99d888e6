"""One log over interchangeable consensus protocols, swapped live.

    async with connect("cluster/cluster.toml") as log:
        await log.append(b"entry")

The names below are the public API, with `virtuallog.contract` (for authors of loglets), `virtuallog.testing`,
`virtuallog.embedded` and `virtuallog.replica`. The whole is described in docs/concepts/architecture.md.
"""

from virtuallog.blocking import BlockingLog, connect_blocking
from virtuallog.client.scan import scan
from virtuallog.client.virtual_log import VirtualLog, VirtualLogSettings
from virtuallog.connect import connect
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.types import Data, Gap, GapKind, LogletOffset, LogPosition, NodeId, Open, PlacedBatch, Sealed

__all__ = [
    "connect",
    "connect_blocking",
    "scan",
    "VirtualLog",
    "VirtualLogSettings",
    "BlockingLog",
    "LogPosition",
    "LogletOffset",
    "NodeId",
    "SessionId",
    "Batch",
    "PlacedBatch",
    "Data",
    "Gap",
    "GapKind",
    "Open",
    "Sealed",
]

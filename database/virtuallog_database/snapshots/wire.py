"""Cap'n Proto interface of snapshots: a method for each message."""

from __future__ import annotations

from typing import Any, Final

from virtuallog.contract.caller_roles import Role
from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.schema import load
from virtuallog_database.snapshots.messages import GetSnapshot, Piece, ReadPiece, SnapshotOffer

SCHEMA: Final[Any] = load("virtuallog_database.snapshots", "snapshots.capnp")

SNAPSHOTS: Final = Interface(
    schema=SCHEMA.Snapshots,
    methods=(
        Method(name="getSnapshot", request=GetSnapshot, reply=SnapshotOffer),
        Method(name="readPiece", request=ReadPiece, reply=Piece),
    ),
    role=Role.ADMIN,
)
"""Interface for nodes and admins, not for clients of ZooKeeper's protocol: a snapshot holds every
secret of the tree, regardless of ACLs. A process that reads the log reads these, too; but asking
for a snapshot holds the log, which only admins may. A compaction begins with one."""

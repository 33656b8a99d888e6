"""Pairs the messages about snapshots with the methods of their Cap'n Proto interface."""

from __future__ import annotations

from typing import Any, Final

from virtuallog.contract.interface import Interface, Method
from virtuallog.contract.roles import Role
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
"""Not for clients of ZooKeeper's protocol: a snapshot has every secret of the tree in it, whatever ACLs say. Whoever reads the log reads
these, too; but who asks for a snapshot holds the log, which only admins may. A compaction begins with one."""

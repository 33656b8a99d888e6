"""Paths of a loglet's znodes.

    ROOT/12.5fe7a0                    the seal: never set: open; set: sealed
    ROOT/12.5fe7a0/batches            set by every append, so its version counts the slots: the tail
    ROOT/12.5fe7a0/batches/b-0000000042         slot 42: a batch, several, or a manifest of chunks
    ROOT/12.5fe7a0/chunks/SESSION-7-1f2e3d4c-0  a part of a batch that is too large for one znode
    ROOT/12.5fe7a0/writers/SESSION    progress of a session; its version is the fence against late copies
    ROOT/12.5fe7a0/trim               the trim point, and how far slots have been deleted

All of it is created in one transaction, so the loglet has one creation id: the number and time of
that transaction.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from virtuallog.contract.batch import SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.znodes import Stat

CreationId: TypeAlias = tuple[int, int]
"""Number and time of the transaction that created a loglet. A wiped ZooKeeper counts anew; then the
time differs."""


def creation_id_of(stat: Stat) -> CreationId:
    return stat.czxid, stat.ctime_ms


def probe_of(root: str) -> str:
    """Path of the probe znode, which is created and deleted in one transaction and so never visible."""
    return f"{root}/probe"


def ancestors_of(root: str) -> list[str]:
    """Paths of the znodes above the root, and of the root."""
    parts = root.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts) + 1)]


@attrs.frozen
class ZooKeeperLayout:
    """Paths of one loglet."""

    root: str
    segment: SegmentId

    @property
    def base(self) -> str:
        return f"{self.root}/{self.segment}"

    @property
    def batches(self) -> str:
        return f"{self.base}/batches"

    @property
    def new_slot(self) -> str:
        """Path to create a slot as a sequence node."""
        return f"{self.batches}/b-"

    def slot(self, number: int) -> str:
        return f"{self.batches}/b-{number:010d}"

    @property
    def chunks(self) -> str:
        return f"{self.base}/chunks"

    @property
    def writers(self) -> str:
        return f"{self.base}/writers"

    def writer(self, session: SessionId) -> str:
        return f"{self.writers}/{session.hex()}"

    @property
    def trim(self) -> str:
        return f"{self.base}/trim"

"""Where the znodes of a loglet are.                                                                                   Pure.

    ROOT/12.5fe7a0                    the seal: never set: open; set: sealed
    ROOT/12.5fe7a0/batches            set by every append, so its version counts the slots: the tail
    ROOT/12.5fe7a0/batches/b-0000000042         slot 42: a batch, several, or a manifest of chunks
    ROOT/12.5fe7a0/chunks/SESSION-7-1f2e3d4c-0  a part of a batch that is too large for one znode
    ROOT/12.5fe7a0/writers/SESSION    how far a session has come; its version is the fence against late copies
    ROOT/12.5fe7a0/trim               the trim point, and how far slots have been deleted

All of it is made in one step, so it has one birth: the transaction and the time of its creation.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from virtuallog.contract.batch import SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.znodes import Stat

CreationId: TypeAlias = tuple[int, int]
"""Number and time of the transaction that made a loglet. A ZooKeeper that was wiped counts anew; then the time differs."""


def creation_id_of(stat: Stat) -> CreationId:
    return stat.czxid, stat.ctime_ms


def probe_of(root: str) -> str:
    """Made and deleted in one step: never seen."""
    return f"{root}/probe"


def ancestors_of(root: str) -> list[str]:
    """The root, after all that it is in."""
    parts = root.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts) + 1)]


@attrs.frozen
class ZooKeeperLayout:
    """The paths of one loglet."""

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
        """To be created as a sequence."""
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

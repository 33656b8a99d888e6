"""The picture of a chain: a block for each segment, from the start of the log to its tail.                          Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs

from virtuallog_server.report.figures.palette import Tone


@attrs.frozen(kw_only=True)
class Block:
    """A segment, or what was trimmed."""

    kind: str
    tone: Tone
    start: int
    stop: int | None
    """None while it takes appends."""
    servers: str
    """Where it is, in a few words."""
    details: Sequence[tuple[str, str]] = ()
    """Shown when the reader points at it."""
    is_gone: bool = False
    """Trimmed: only the place of it is left."""

    @property
    def range(self) -> str:
        """The positions as people write them."""
        return f"{self.start:,} …" if self.stop is None else f"{self.start:,} to {self.stop - 1:,}"


@attrs.frozen(kw_only=True)
class ChainDiagram:
    """The blocks, in the order of positions."""

    part: ClassVar = "chain"

    blocks: Sequence[Block]
    caption: str = ""

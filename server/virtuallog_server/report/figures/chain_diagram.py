"""The diagram of a chain: a block for each segment, from the start of the log to its tail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs

from virtuallog_server.report.figures.palette import Tone


@attrs.frozen(kw_only=True)
class Block:
    """A segment, or a trimmed range."""

    kind: str
    tone: Tone
    start: int
    stop: int | None
    """None while it takes appends."""
    servers: str
    """The servers, in a few words."""
    details: Sequence[tuple[str, str]] = ()
    """Details, shown when the reader points at the block."""
    is_gone: bool = False
    """True if the range is trimmed."""

    @property
    def range(self) -> str:
        """The positions, for readers."""
        return f"{self.start:,} …" if self.stop is None else f"{self.start:,} to {self.stop - 1:,}"


@attrs.frozen(kw_only=True)
class ChainDiagram:
    """The blocks, in the order of positions."""

    part: ClassVar = "chain"

    blocks: Sequence[Block]
    caption: str = ""

"""Where engines keep their part of the state.                                                                    Pure.

Keys that start with a zero byte belong to the engines, one section for each by its name; all others to the application.
"""

from __future__ import annotations

from typing import Final

from virtuallog.ports import Span

ENGINES: Final[Span] = (b"\0", b"\1")
"""All sections."""


def section(engine: str) -> bytes:
    """The prefix of the keys of the engine of this name."""
    return b"\0" + engine.encode() + b"\0"


def section_span(engine: str) -> Span:
    """All keys of the engine of this name."""
    return section(engine), b"\0" + engine.encode() + b"\1"


CURSOR: Final = section("base") + b"cursor"
"""Its value: the first position that is not applied, u64, big-endian."""

"""The first page: the chain as a timeline, and why it is as it is. What is wrong comes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs
from starlette.responses import Response

from virtuallog.contract.metastore import MetaStoreProvider
from virtuallog_console.pages.frame import Frame, PageRequest
from virtuallog_console.views.chain import ChainView, FindingRow, SegmentRow, read_chain
from virtuallog_console.views.shared_view import SharedView
from virtuallog_server.report.figures.palette import Tone

AGE_SECONDS: Final = 1.0
"""Age up to which a view is shown again: all open pages together cost the cluster one diagnosis per second."""
BLOCKS_MAX: Final = 24
"""Segments of the timeline, the newest ones. The table below has all of them."""
SHARES: Final = 12
"""Widths that a block may have. A block of a segment with twice the entries is somewhat wider, and none disappears."""
WRONG: Final = ("trouble", "weak")
"""Weights of findings that ask for action."""
_TONES: Final[tuple[Tone, ...]] = ("blue", "orange", "violet", "teal", "brown", "green")


@attrs.frozen(kw_only=True)
class Block:
    """A segment in the timeline."""

    row: SegmentRow
    tone: Tone
    share: int
    """Width, from 1 to `SHARES`."""
    wrong: int
    """Number of findings that ask for action."""


@attrs.frozen(kw_only=True)
class AboutFinding:
    """A finding, and what it is about."""

    about: str
    """In words. Empty if it is about the whole log."""
    anchor: str
    """Place on the page. Empty if there is none."""
    finding: FindingRow


@attrs.frozen(kw_only=True)
class Timeline:
    """The newest segments of the chain."""

    blocks: tuple[Block, ...]
    older: int
    """Segments before the first block."""


class ChainPage:
    """Shows the chain."""

    def __init__(self, frame: Frame, metastore: MetaStoreProvider) -> None:
        self._frame = frame
        self.shared = SharedView[ChainView](
            lambda: read_chain(frame.log, metastore), frame.environment, AGE_SECONDS, frame.known_version
        )

    async def show(self, asked: PageRequest) -> Response:
        """The page."""
        view = await self.shared.get()
        return self._frame.show(
            "chain.html", asked, view=view, wrong=[*wrong_in(view)], timeline=timeline_of(view.segments)
        )


def wrong_in(view: ChainView) -> Iterator[AboutFinding]:
    """Findings that ask for action, the heaviest first, wherever they stand in the view."""
    found = [AboutFinding(about="", anchor="", finding=each) for each in view.findings]
    for segment in view.segments:
        about = f"segment {segment.id}"
        found += [AboutFinding(about=about, anchor=f"segment-{segment.id}", finding=each) for each in segment.findings]
    for node in view.nodes:
        about = f"node {node.node}"
        found += [AboutFinding(about=about, anchor=f"node-{node.node}", finding=each) for each in node.findings]
    for weight in WRONG:
        yield from (each for each in found if each.finding.weight == weight)


def timeline_of(segments: Sequence[SegmentRow]) -> Timeline:
    """The newest segments, with widths that follow the logarithm of their sizes."""
    shown = segments[-BLOCKS_MAX:]
    kinds = sorted({row.kind for row in segments})
    digits = [(row.size or 0).bit_length() for row in shown]
    longest = max(digits, default=0) or 1
    return Timeline(
        blocks=tuple(
            Block(
                row=row,
                tone=_TONES[kinds.index(row.kind) % len(_TONES)],
                share=max(1, round(SHARES * length / longest)),
                wrong=sum(each.weight in WRONG for each in row.findings),
            )
            for row, length in zip(shown, digits, strict=True)
        ),
        older=len(segments) - len(shown),
    )

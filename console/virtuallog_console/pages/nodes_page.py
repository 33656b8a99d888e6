"""Pages of nodes and of holds: views that are the same for all viewers."""

from __future__ import annotations

from typing import Final

import attrs
from starlette.responses import Response

from virtuallog_console.pages.frame import Frame, PageRequest
from virtuallog_console.views.holds import HoldsView, read_holds, read_trim_effect
from virtuallog_console.views.nodes import NodesView, read_nodes
from virtuallog_console.views.shared_view import SharedView

AGE_SECONDS: Final = 1.0
"""Age up to which a view is shown again."""
WRONG_STATES: Final = ("failing", "silent", "other directory", "not ready")
"""States of a node that come first on the page, in this order."""


class NodesPage:
    """Shows the nodes."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._shared = SharedView[NodesView](
            lambda: read_nodes(frame.log), frame.environment, AGE_SECONDS, frame.known_version
        )

    async def show(self, asked: PageRequest) -> Response:
        """The page."""
        view = await self._shared.get()
        order = {state: place for place, state in enumerate(WRONG_STATES)}
        rows = sorted(view.nodes, key=lambda row: (order.get(row.state, len(order)), row.node))
        return self._frame.show("nodes.html", asked, view=view, rows=rows, wrong=WRONG_STATES)


@attrs.define(eq=False)
class HoldsPage:
    """Shows what keeps the log, and the effect of a trim."""

    _frame: Frame
    _shared: SharedView[HoldsView] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        frame = self._frame
        self._shared = SharedView(lambda: read_holds(frame.log), frame.environment, AGE_SECONDS, frame.known_version)

    async def show(self, asked: PageRequest) -> Response:
        """The page."""
        position = asked.query.number("position")
        view = await self._shared.get()
        effect = None if position is None else await read_trim_effect(self._frame.log, position)
        return self._frame.show("holds.html", asked, view=view, effect=effect, position=position)

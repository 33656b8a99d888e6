"""Two nodes that move the same copies."""

from __future__ import annotations

from typing import Any, cast

import pytest
from trio.testing import MockClock

from tests.virtuallog.client.world import world
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import NodeId
from virtuallog_server.healing.rebuild import rebuild, rebuild_unless_moved

UNUSED = cast(Any, None)
"""Nothing is copied here."""


async def test_a_segment_that_a_healer_has_moved_is_no_error(autojump_clock: MockClock) -> None:
    """A replacement and a healer rebuilt the same segment; the one who came second ended the replacement, which looks again anyway."""
    gone = SegmentId(99, 1)
    async with world() as w:
        log = w.client()
        with pytest.raises(InvalidSettingError, match="not in the chain"):
            await rebuild(log, gone, (NodeId(1),), UNUSED, lambda: 99)

        await rebuild_unless_moved(log, gone, (NodeId(1),), UNUSED, lambda: 99)

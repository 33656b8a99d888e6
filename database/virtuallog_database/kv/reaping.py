"""Which znodes nobody needs any more: containers that have emptied, and znodes whose time to live is over.

Every replica may propose to reap; each looks about once a minute, at a moment of its own, so that as a rule one of them finds what
there is. Whether it still holds is decided where the proposal is applied (`session_operations.reap`): two of them do no harm.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import trio

from virtuallog_database.kv.commands import Reap
from virtuallog_database.kv.session_operations import is_reapable
from virtuallog_database.kv.tree import Tree

PAGE_COUNT: Final = 256
"""Znodes that are looked at in one turn of the scheduler, some 2 ms, and at most so many in one command."""


async def due(tree: Tree, now_ms: int) -> AsyncIterator[Reap]:
    """What is to be proposed."""
    after = ""
    while page := tree.reapable(after, PAGE_COUNT):
        after = page[-1][0]
        found = tuple(path for path, znode in page if is_reapable(znode, now_ms))
        if found:
            yield Reap(found)
        await trio.lowlevel.checkpoint()

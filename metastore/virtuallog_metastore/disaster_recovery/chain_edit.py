"""Edits of an exported register by hand, for a loglet that is lost for good.

A change of the chain needs a seal and a tail. A loglet that is gone gives neither: it was kept
elsewhere than on nodes, or on nodes of which most are gone. The authors of Delos call metadata
edits a safe emergency tool (OSDI'20, section 6). Here they are a part of the recovery in
`virtuallog_metastore.disaster_recovery.revival`: the cluster is stopped, and goes on as another
one. So no node can acknowledge an append to a client that still knows the former chain.

No position is ever given twice: the log goes on where the operator says, and that is at or past the
start of what is lost.
"""

from __future__ import annotations

import attrs

from virtuallog.contract import chain
from virtuallog.contract.chain import Chain
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import POSITION_MAX, LogPosition
from virtuallog_metastore.disaster_recovery.dump import Dump, dump


def edit(found: Dump, close_at: int | None, start_at: int | None) -> Dump:
    """Return the same register, some versions later.

    Args:
        found: the exported register.
        close_at: end of the open segment, without a seal; None to leave it open. Must be past
            everything that was ever acknowledged.
        start_at: segments wholly below are dropped, and with them their entries; None to drop none.

    Raises:
        InvalidSettingError: that is impossible, or changes nothing.
    """
    edited = found.register.chain
    if close_at is not None:
        edited = _closed(edited, close_at)
    if start_at is not None:
        edited = _shortened(edited, start_at)
    if edited == found.register.chain:
        raise InvalidSettingError("edit", "nothing is to be changed")
    chain.validate(edited)
    return dump(found.register.with_chain(edited).encode())


def _closed(before: Chain, stop: int) -> Chain:
    active = before.active
    if active is None:
        raise InvalidSettingError("close at", f"the log is closed already, at {before.last.stop}")
    if not active.start <= stop <= POSITION_MAX:
        raise InvalidSettingError("close at", f"the open segment begins at {active.start}: {stop} is not in it")
    return chain.close(before, stop)


def _shortened(before: Chain, start: int) -> Chain:
    last = before.last
    if last.stop is not None and last.stop <= start:
        # An empty segment marks where the log goes on; it leaves the chain when the log does.
        return Chain(before.version + 1, (attrs.evolve(last, start=last.stop, base=last.offset(last.stop)),))
    shortened = chain.truncate(before, LogPosition(start))
    if shortened is None:
        raise InvalidSettingError("start at", f"no segment lies wholly below {start}")
    return shortened

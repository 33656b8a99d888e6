"""Puts the loglet back that an archive took the place of: the same loglet, for a segment with another id."""

from __future__ import annotations

from typing import Final

from virtuallog.api import LogletProvider
from virtuallog.chain import Segment
from virtuallog.errors import InvalidSettingError, UnsupportedError
from virtuallog.kept import NamesLoglets
from virtuallog.node_table import lost_copies
from virtuallog.register import Register
from virtuallog.replicated import replicated
from virtuallog.types import LogPosition
from virtuallog_loglets.archive.config import HotCopy

_WHERE: Final = "undo"


def config_to_put_back(provider: LogletProvider, hot: HotCopy, register: Register) -> bytes:
    """The config with which a new segment has the entries of the hot copy.

    Raises:
        InvalidSettingError: some of its servers have lost their copies meanwhile, and nobody would notice under a new id.
        MalformedError: its config cannot be read.
        UnsupportedError: loglets of this kind exist only under the id that they were made with.
    """
    found = replicated(provider)
    if found is not None:
        servers = found.placement(hot.config).servers
        place = LogPosition(0)  # only the id counts
        former = Segment(id=hot.id, kind=hot.kind, config=hot.config, start=place, stop=place)
        if lost := lost_copies(register, former, servers):
            raise InvalidSettingError(_WHERE, f"nodes {sorted(lost)} have new disks, without copies of the hot loglet")
        return found.move(hot.id, hot.config, servers)
    if isinstance(provider, NamesLoglets):
        return provider.named(hot.id, hot.config)
    raise UnsupportedError(f"a loglet of kind {hot.kind} cannot be put back")

"""What kinds have in common that nodes have no part in: their loglets consist of others, or are kept elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from virtuallog.ports import Handlers, NodeEnvironment
from virtuallog.rpc.interface import Interface
from virtuallog.versions import COMPOSED


class Unserved:
    """The parts of a `LogletProvider` that such a kind does not need. Places of entries are its own business: not contiguous."""

    __slots__ = ()

    @property
    def contiguous(self) -> bool:
        return False

    @property
    def since(self) -> int:
        """See `virtuallog.versions.Recent`: an older node would look for a loglet of the segment's id, and drop what it rests on."""
        return COMPOSED

    @property
    def interfaces(self) -> Sequence[Interface]:
        return ()

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        """There is nothing to ask a node for."""
        return {}

    async def forget(self, lowest_live_version: int) -> None:
        """Nor does one keep anything."""

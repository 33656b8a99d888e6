"""The single-copy loglet with one promise broken, for the conformance kit to find.

The author believed that a seal need not be written: "no client appends to a sealed loglet anyway, the chain has moved on".
But a client with an old chain does, and after a restart of the server its entries are acknowledged, at places that the
chain has given to no client.
"""

from __future__ import annotations

import attrs
import trio
from single_copy_loglet import SingleCopyProvider, SingleCopyServer

from virtuallog.contract.chain import SegmentId


class ForgetfulServer(SingleCopyServer):
    """Keeps its seals in memory."""

    async def keep_seal(self, segment: SegmentId) -> None:
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class BrokenProvider(SingleCopyProvider):
    """Serves with that."""

    kind: str = "forgetful"
    server_class: type[SingleCopyServer] = ForgetfulServer

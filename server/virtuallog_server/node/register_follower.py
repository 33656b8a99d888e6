"""Reaction of a node to newer registers: learn addresses, drop unneeded loglets, notice that it is no longer meant.

Each step only catches up with what is decided: it is safe to do twice, and to cancel anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from virtuallog.contract.chain import Chain, SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import RetryableError, UnsupportedError, VirtualLogError, WrongRecipientError
from virtuallog.contract.ports import Clock
from virtuallog.contract.provider import LogletProvider, SupportsSweep
from virtuallog.contract.register import Register
from virtuallog.contract.versions import LIVE_LOGLETS, Versions
from virtuallog.reconfiguration.chain_cache import ChainCache
from virtuallog.reconfiguration.retention import retained_loglets
from virtuallog.runtime import log
from virtuallog_server.node.role import NodeRole
from virtuallog_server.storage.identity import Identity

FOLLOW_SECONDS: Final = 0.5
"""Pause between two looks at the cached register, which the watchdog refreshes. The consequences of a change (dropped
loglets, new addresses) are not urgent.
"""

_FOLLOWING = CrashPoint("node: a new register is known, old loglets are not dropped")


class RegisterFollower:
    """Acts on each newer register for one node.

    Args:
        identity: of the node's data directory.
        versions: protocol versions that the node may speak.
        providers: every loglet kind of the node, by name.
        roles: the roles that serve them, by the same names.
        on_register: called with each newer register; must not block.
        closing: the roles that end when the cluster gives up this node.
    """

    def __init__(
        self,
        identity: Identity,
        versions: Versions,
        providers: Mapping[str, LogletProvider],
        roles: Mapping[str, NodeRole],
        on_register: Callable[[Register], None],
        closing: Sequence[NodeRole] = (),
    ) -> None:
        self.problem = ""
        """Reason why the cluster has given up this node. Empty while it has not."""
        self._identity = identity
        self._versions = versions
        self._providers = providers
        self._roles = roles
        self._on_register = on_register
        self._closing = closing
        self._forgotten: dict[str, int] = {}
        """Kind -> version of the register by which its role has dropped loglets."""

    async def run(self, view: ChainCache, clock: Clock) -> None:
        """Act on every newer register, for ever."""
        acted_on = 0
        while True:
            try:
                register = await view.current()
                if register.version > acted_on:
                    await self._act_on(register)
                    acted_on = register.version
                await self._forget_dropped(register)
            except RetryableError as error:
                log.debug("following the register", error=str(error))
            await clock.sleep(FOLLOW_SECONDS)

    async def _act_on(self, register: Register) -> None:
        await self._identity.join(register.cluster)
        entry = register.nodes.get(self._identity.node)
        if entry is None or entry.store_id != self._identity.store_id:
            self._leave(register)
        if register.level > self._versions.last:
            self._stay_behind(register.level)
        self._on_register(register)
        _FOLLOWING.reached()

    async def _forget_dropped(self, register: Register) -> None:
        """Tell each open role the loglets that the chain needs, once for each register. A role that opens later is told then."""
        behind = [
            kind
            for kind, role in self._roles.items()
            if role.is_open and self._forgotten.get(kind, 0) < register.version
        ]
        live = live_loglets(register.chain, self._providers) if behind else None
        for kind in behind:
            if live is not None:
                await self._forget(self._roles[kind], self._providers[kind], register, live)
            self._forgotten[kind] = register.version

    def _leave(self, register: Register) -> None:
        """Close the roles: another directory has this place, for good, and nothing held here belongs to the cluster any more. The
        decisions of the register stay true, so the acceptor still shows them.
        """
        known = self._identity.node in register.nodes
        found = "another data directory" if known else "none: the node was removed"
        self.problem = f"identity: the cluster knows this node by {found}"
        self._close(WrongRecipientError("data directory", found, self._identity.store_id.hex()))

    def _stay_behind(self, level: int) -> None:
        """Close the roles: other nodes write a format that this node cannot read, and it must not act on half of it."""
        reason = f"the cluster is at protocol version {level}, this node speaks {self._versions}"
        self.problem = f"protocol: {reason}"
        self._close(UnsupportedError(reason))

    def _close(self, error: VirtualLogError) -> None:
        for role in self._closing:
            if role.cause is None:
                role.fail(error)

    async def _forget(
        self, role: NodeRole, provider: LogletProvider, register: Register, live: Collection[SegmentId]
    ) -> None:
        """Drop the loglets that the chain no longer needs."""
        version = register.chain.version
        try:
            await provider.forget(min((loglet.version for loglet in live), default=version))
            if isinstance(provider, SupportsSweep) and min(register.level, self._versions.last) >= LIVE_LOGLETS:
                await provider.sweep_loglets(version, live)
        except RetryableError:
            raise
        except VirtualLogError as error:
            role.fail(error)


def live_loglets(chain: Chain, providers: Mapping[str, LogletProvider]) -> Collection[SegmentId] | None:
    """The loglets that nodes keep for a chain, by the ids that nodes know them by. None if a kind is not installed here."""
    live: list[SegmentId] = []
    for segment in chain.segments:
        kept = retained_loglets(segment, providers)
        if kept is None:
            return None
        live += kept
    return live

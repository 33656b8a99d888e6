"""Members of a log used by itself, and their addresses. Under a virtual log the chain names them; here it is a list, or
ZooKeeper (`zookeeper_network.py`).

Base members always remain. The own replica is one, so that a log of quorum 1 works when the ZooKeeper that names the
other members is down.

Source: Mesos, `src/log/network.hpp`. Departures:
* Members are known by number, and a connection is used only with the intended member. Each connection names the log, the
  number and, if known, the start of the process (MESOS-5576: a member that is added again gets a new connection).
* More than 2 * quorum - 1 members could form two quorums without a common member, and so two logs. Mesos trusts the
  operator; here no replica is asked anything until that is over.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterable
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog.rpc.link import Peer
from virtuallog.rpc.protocol.node import OpenNode
from virtuallog.runtime import log
from virtuallog_loglets.paxos.config import Ensemble


@attrs.frozen(order=True, kw_only=True)
class LogMember:
    """One replica of the log."""

    node: NodeId
    address: str
    """host:port"""
    boot: int = 0
    """Start of its process that is meant; 0 for any."""


class WatchMode(enum.Enum):
    """Comparison of the number of members with the number that is waited for."""

    EQUAL = "=="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="

    def holds(self, found: int, wanted: int) -> bool:
        return _COMPARISONS[self](found, wanted)


_COMPARISONS: Final[dict[WatchMode, Callable[[int, int], bool]]] = {
    WatchMode.EQUAL: operator.eq,
    WatchMode.NOT_EQUAL: operator.ne,
    WatchMode.LESS: operator.lt,
    WatchMode.LESS_OR_EQUAL: operator.le,
    WatchMode.GREATER: operator.gt,
    WatchMode.GREATER_OR_EQUAL: operator.ge,
}


@attrs.define(eq=False)
class LogNetwork:
    """The members of one log.

    Args:
        cluster: 16 bytes that name the log; the called member must know them as well.
        quorum: quorum of the log.
        base: permanent members: the own replica and all that are listed.
    """

    cluster: bytes
    quorum: int
    _base: tuple[LogMember, ...]
    _members: dict[NodeId, LogMember] = attrs.field(init=False)
    _peers: dict[NodeId, Peer] = attrs.field(factory=dict, init=False)
    """Peers by member, kept while nothing about them changes, as `find` is called for each request."""
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        if len({member.node for member in self._base}) != len(self._base):
            raise InvalidSettingError("peers", "two of them have the same number")
        self._members = {member.node: member for member in sorted(self._base)}
        if self.quorum < 1:
            raise InvalidSettingError("quorum", f"must be at least 1, not {self.quorum}")
        if not self.is_safe:
            raise InvalidSettingError("quorum", f"{self.quorum} of {self.size}: two quorums could share no replica")

    @property
    def members(self) -> tuple[LogMember, ...]:
        """Members, sorted by number."""
        return tuple(self._members.values())

    @property
    def size(self) -> int:
        return len(self._members)

    def add(self, member: LogMember) -> None:
        """Add a member; one of the same number is replaced, unless it belongs to the base."""
        self.set((*self._members.values(), member))

    def remove(self, node: NodeId) -> None:
        """Remove a member; one of the base stays."""
        self.set(member for member in self._members.values() if member.node != node)

    def set(self, members: Iterable[LogMember]) -> None:
        """Replace all members by these and the base."""
        found = {member.node: member for member in members}
        found.update({member.node: member for member in self._base})
        if found == self._members:
            return
        self._members = dict(sorted(found.items()))
        self._peers = {node: peer for node, peer in self._peers.items() if node in found}
        tell = log.info if self.is_safe else log.warning
        tell("members", members=[f"{member.node}@{member.address}" for member in self.members], safe=self.is_safe)
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def watch(self, size: int, mode: WatchMode = WatchMode.NOT_EQUAL) -> int:
        """Wait until the number of members compares with `size` as `mode` says; returns the number."""
        while not mode.holds(self.size, size):
            await self._changed.wait()
        return self.size

    def find(self, node: NodeId) -> Peer:
        """Peer of a member: the resolver of an RpcServices.

        Raises:
            UnavailableError: the node is no member now.
        """
        member = self._members.get(node)
        if member is None:
            raise UnavailableError(f"node {node} is no member of this log now")
        peer = Peer((member.address,), OpenNode(cluster=self.cluster, node=node, boot=member.boot))
        known = self._peers.get(node)
        if known != peer:
            known = self._peers[node] = peer
        return known

    @property
    def is_safe(self) -> bool:
        """True if any two quorums of these members share a member."""
        return self.size < 2 * self.quorum

    def ensemble(self) -> Ensemble:
        """Ensemble to ask now; without members while that is not safe."""
        return Ensemble(members=tuple(self._members) if self.is_safe else (), quorum=self.quorum)

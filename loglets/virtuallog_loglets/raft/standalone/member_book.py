"""Addresses of a log's members, as a caller needs them. Every call names the store that is meant.

A seed is an address without a store: it may only be asked who is there (`LogClient.discover`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping

import attrs

from virtuallog.contract.address import split_address
from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog.rpc.link import Peer
from virtuallog.rpc.protocol.node import OpenNode
from virtuallog_loglets.raft.core.membership import RaftMember
from virtuallog_loglets.raft.standalone.store import STORE_ID_BITS


@attrs.define(eq=False)
class MemberBook:
    """Last known address of each store."""

    cluster: bytes
    """Id of the log; see `cluster_of`."""
    members: Callable[[], Mapping[NodeId, RaftMember]] = dict
    """The members as a replica in this process has them: they come with its records. Set once it has begun."""
    _peers: dict[NodeId, Peer] = attrs.field(factory=dict, init=False)

    def learn(self, store: NodeId, address: str) -> None:
        """Note where a store is."""
        known = self._peers.get(store)
        if known is None or known.addresses != (address,):
            expected = OpenNode(cluster=self.cluster, store_id=store_bytes(store))
            self._peers[store] = Peer((address,), expected)

    def learn_seeds(self, addresses: Iterable[str]) -> tuple[NodeId, ...]:
        """Note addresses at which some store of the log is; returns numbers to call them by, which no store has."""
        seeds = []
        for number, address in enumerate(addresses):
            seed = NodeId((1 << STORE_ID_BITS) + number)
            self._peers[seed] = Peer((address,), OpenNode(cluster=self.cluster))
            seeds.append(seed)
        return tuple(seeds)

    def find(self, store: NodeId) -> Peer:
        """Peer of a store: the resolver of an RpcServices.

        Raises:
            UnavailableError: its address is not known.
        """
        member = self.members().get(store)
        if member is not None:
            self.learn(store, member.address)
        peer = self._peers.get(store)
        if peer is None:
            raise UnavailableError(f"the address of store {store} is not known")
        return peer


def cluster_of(name: str) -> bytes:
    """Id by which connections name a log."""
    return hashlib.blake2b(name.encode(), digest_size=16, person=b"raft log").digest()


def store_bytes(store: NodeId) -> bytes:
    """Id by which connections name a store."""
    return store.to_bytes(16, "big")


def parse_peer(text: str) -> tuple[NodeId | None, str]:
    """Parse `store@host:port`, or `host:port` for any store there.

    Raises:
        InvalidSettingError: `text` has another form.
    """
    number, at, address = text.rpartition("@")
    if at and not (number.isascii() and number.isdecimal() and 0 < int(number) < 1 << STORE_ID_BITS):
        raise InvalidSettingError("peer", f"'{text[:80]}' is not host:port or store@host:port")
    split_address(address)
    return (NodeId(int(number)) if at else None), address

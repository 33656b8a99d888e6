"""Where nodes are, and who should be there: from the newest register, and before there is one from a list of seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from virtuallog.client.cluster_file import NodeAddress
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.register import NodeEntry, Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import SPOKEN, Versions
from virtuallog.rpc.link import Peer
from virtuallog.rpc.protocol.node import OpenNode


@attrs.define(eq=False)
class AddressBook:
    """`find` is the resolver of an RpcServices."""

    _seeds: Mapping[NodeId, str]
    _versions: Versions = SPOKEN
    """Of the protocol, that we speak."""
    _register: Register | None = None
    _cluster: bytes = b""
    """Of everybody who is meant; empty before it is known."""
    _peers: dict[NodeId, Peer] = attrs.field(factory=dict, init=False)
    """Of all nodes that are known. Whoever is meant by the same words stays the same object: `find` is called often."""

    def __attrs_post_init__(self) -> None:
        self._peers = {node: Peer((address,), self._stranger(node)) for node, address in self._seeds.items()}

    @classmethod
    def of(cls, seeds: Iterable[NodeAddress], versions: Versions = SPOKEN) -> AddressBook:
        return cls({NodeId(seed.id): seed.address for seed in seeds}, versions)

    def expect(self, cluster: bytes) -> None:
        """From now on mean nobody but nodes of this cluster, also before a register is known. To be called before anybody is asked."""
        self._cluster = cluster
        self._peers = {node: Peer((address,), self._stranger(node)) for node, address in self._seeds.items()}

    def learn(self, register: Register) -> None:
        """From now on go by this register, unless a newer one is known. A connection to somebody else than it names is
        not used for anything that is posted after this."""
        if self._register is not None and self._register.version >= register.version:
            return
        self._register = register
        found = {node: Peer((address,), self._stranger(node)) for node, address in self._seeds.items()}
        for node, entry in register.nodes.items():
            if entry.is_expected:  # it calls others until it has joined; nobody calls it
                found.pop(node, None)
            else:
                found[node] = self._peer(register, node, entry)
        self._peers = {
            node: known if (known := self._peers.get(node)) == peer else peer for node, peer in found.items()
        }

    def learn_value(self, value: bytes) -> None:
        """The same, of the register as the MetaStore has it (`Environment.learned`)."""
        self.learn(decode_untrusted(value))

    def find(self, node: NodeId) -> Peer:
        """Where the node is. Once a register is known, its cluster and data directory must be the right ones, too.

        Raises:
            UnavailableError: neither the register nor the seeds know it; or no data directory has its place now. The one that had it
                before may still be there, and answer as ever.
        """
        peer = self._peers.get(node)
        if peer is None:
            if self._register is not None and node in self._register.nodes:
                raise UnavailableError(f"node {node} is expected: no data directory has taken its place yet")
            raise UnavailableError(f"nobody knows where node {node} is")
        return peer

    def _peer(self, register: Register, node: NodeId, entry: NodeEntry) -> Peer:
        expected = attrs.evolve(self._stranger(node), cluster=register.cluster, store_id=entry.store_id)
        return Peer(entry.addresses, expected)

    def _stranger(self, node: NodeId) -> OpenNode:
        return OpenNode(
            cluster=self._cluster, node=node, protocol_first=self._versions.first, protocol_last=self._versions.last
        )

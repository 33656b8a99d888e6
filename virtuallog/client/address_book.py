"""Addresses and expected identities of nodes: from the newest register, or from a list of seeds before there is one."""

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
    """Addresses of the nodes of one cluster. `find` is the resolver of an RpcServices."""

    _seeds: Mapping[NodeId, str]
    _versions: Versions = SPOKEN
    """Protocol versions that this client speaks."""
    _register: Register | None = None
    _cluster: bytes = b""
    """Id of the cluster that all nodes must belong to; empty if not known yet."""
    _peers: dict[NodeId, Peer] = attrs.field(factory=dict, init=False)
    """Peers of all known nodes. An unchanged peer stays the same object: `find` is called often."""

    def __attrs_post_init__(self) -> None:
        self._peers = {node: Peer((address,), self._stranger(node)) for node, address in self._seeds.items()}

    @classmethod
    def of(cls, seeds: Iterable[NodeAddress], versions: Versions = SPOKEN) -> AddressBook:
        """Make an address book that knows these nodes only."""
        return cls({NodeId(seed.id): seed.address for seed in seeds}, versions)

    def expect(self, cluster: bytes) -> None:
        """Accept only nodes of this cluster from now on, also before a register is known.

        Call it before the first node is asked.
        """
        self._cluster = cluster
        self._peers = {node: Peer((address,), self._stranger(node)) for node, address in self._seeds.items()}

    def learn(self, register: Register) -> None:
        """Use this register from now on, unless a newer one is known.

        Requests posted later do not use a connection to a node other than the one it names.
        """
        if self._register is not None and self._register.version >= register.version:
            return
        self._register = register
        found = {node: Peer((address,), self._stranger(node)) for node, address in self._seeds.items()}
        for node, entry in register.nodes.items():
            if entry.is_expected:  # it calls others until it has joined, and is not called
                found.pop(node, None)
            else:
                found[node] = self._peer(register, node, entry)
        self._peers = {
            node: known if (known := self._peers.get(node)) == peer else peer for node, peer in found.items()
        }

    def learn_value(self, value: bytes) -> None:
        """`learn`, for a register as the MetaStore has it (`Environment.learned`)."""
        self.learn(decode_untrusted(value))

    def find(self, node: NodeId) -> Peer:
        """Addresses of the node, and its identity. With a register that includes cluster and data directory.

        Raises:
            UnavailableError: neither the register nor the seeds know the node; or no data directory
                has its place now. The former one may still be there, and answer as before.
        """
        try:
            return self._peers[node]
        except KeyError:
            if self._register is not None and node in self._register.nodes:
                raise UnavailableError(f"node {node} is expected: no data directory has taken its place yet") from None
            raise UnavailableError(f"no address of node {node} is known") from None

    def _peer(self, register: Register, node: NodeId, entry: NodeEntry) -> Peer:
        expected = attrs.evolve(self._stranger(node), cluster=register.cluster, store_id=entry.store_id)
        return Peer(entry.addresses, expected)

    def _stranger(self, node: NodeId) -> OpenNode:
        return OpenNode(
            cluster=self._cluster, node=node, protocol_first=self._versions.first, protocol_last=self._versions.last
        )

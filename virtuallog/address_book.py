"""Where nodes are, and who should be there: from the newest register, and before there is one from a list of seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from virtuallog.cluster_file import NodeAddress
from virtuallog.errors import UnavailableError
from virtuallog.register import Register, decode_untrusted
from virtuallog.rpc.link import Peer
from virtuallog.rpc.node import Open
from virtuallog.types import NodeId
from virtuallog.versions import SPOKEN, Versions


@attrs.define(eq=False)
class AddressBook:
    """`find` is the resolver of an RpcServices."""

    _seeds: Mapping[NodeId, str]
    _versions: Versions = SPOKEN
    """Of the protocol, that we speak."""
    _register: Register | None = None

    @classmethod
    def of(cls, seeds: Iterable[NodeAddress], versions: Versions = SPOKEN) -> AddressBook:
        return cls({NodeId(seed.id): seed.address for seed in seeds}, versions)

    def learn(self, register: Register) -> None:
        """From now on go by this register, unless a newer one is known. Connections that are open stay open."""
        if self._register is None or self._register.version <= register.version:
            self._register = register

    def learn_value(self, value: bytes) -> None:
        """The same, of the register as the MetaStore has it (`Environment.learned`)."""
        self.learn(decode_untrusted(value))

    def find(self, node: NodeId) -> Peer:
        """Where the node is. Once a register is known, its cluster and data directory must be the right ones, too.

        Raises:
            UnavailableError: neither the register nor the seeds know it.
        """
        register = self._register
        stranger = Open(node=node, protocol_first=self._versions.first, protocol_last=self._versions.last)
        if register is not None and node in register.nodes:
            entry = register.nodes[node]
            if entry.is_expected:  # it is no part of the cluster so far, and knows of none
                return Peer(entry.addresses, stranger)
            return Peer(entry.addresses, attrs.evolve(stranger, cluster=register.cluster, store_id=entry.store_id))
        if node in self._seeds:
            return Peer((self._seeds[node],), stranger)
        raise UnavailableError(f"nobody knows where node {node} is")

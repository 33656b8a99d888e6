"""Identity of a node, and the two calls about it: `OpenNode` checks it, and `Hello` asks for it."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.errors import MalformedError, UnsupportedError, VirtualLogError, WrongRecipientError
from virtuallog.contract.ports import Question, Request
from virtuallog.contract.schema import load
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import FIRST, SPOKEN, Versions

_ANY_NODE: Final = NodeId(0)
_ID_BYTES: Final = 16
"""Size of the id of a cluster or a data directory."""


@attrs.frozen(kw_only=True)
class Identity:
    """Identity of a node, as the node itself knows it."""

    cluster: bytes
    """16 bytes; empty before the cluster is bootstrapped."""
    node: NodeId
    store_id: bytes
    """Id of the data directory: survives restarts, not a wiped disk."""
    boot: int
    """Number of the process start."""
    software: str
    protocol_first: int = SPOKEN.first
    protocol_last: int = SPOKEN.last
    nonce: bytes = b""
    """Random id of this process; empty from a node of a former version.

    Two processes on copies of one data directory have the same store id, and may have the same
    boot.
    """

    @property
    def versions(self) -> Versions:
        """Protocol versions that the node speaks."""
        return Versions(self.protocol_first, self.protocol_last)


@attrs.frozen
class NodeOpened:
    """The reply to `OpenNode`. On the wire a capability comes with it: the node."""

    protocol: int = FIRST
    """Protocol version in force on this connection."""


@attrs.frozen(kw_only=True)
class OpenNode(Request[NodeOpened]):
    """A request for the node, if it is the one meant. Empty or zero fields are not checked.

    Fails with WrongRecipientError if another node answers, and with UnsupportedError without a
    protocol version that both sides speak.
    """

    cluster: bytes = b""
    node: NodeId = _ANY_NODE
    store_id: bytes = b""
    boot: int = 0
    protocol_first: int = SPOKEN.first
    protocol_last: int = SPOKEN.last

    def answer_untrusted(self, found: Identity) -> NodeOpened | VirtualLogError:
        """Return the answer of the node `found`."""
        if len(self.cluster) > _ID_BYTES or len(self.store_id) > _ID_BYTES:  # an error about it would be as long
            return MalformedError(f"an id is longer than {_ID_BYTES} bytes")
        mismatch = self._mismatch(found)
        if mismatch is not None:
            return mismatch
        protocol = found.versions.agree_untrusted(self.protocol_first, self.protocol_last)
        if protocol is None:
            return no_common_protocol(str(found.versions), f"{self.protocol_first} to {self.protocol_last}")
        return NodeOpened(protocol)

    def _mismatch(self, found: Identity) -> WrongRecipientError | None:
        """Return the first mismatch; None if this is the node meant."""
        if self.cluster and self.cluster != found.cluster and not self._is_early(found):
            return WrongRecipientError("cluster", self.cluster.hex(), found.cluster.hex() or "none yet")
        if self.node and self.node != found.node:
            return WrongRecipientError("node", str(self.node), str(found.node))
        if self.store_id and self.store_id != found.store_id:
            return WrongRecipientError("data directory", self.store_id.hex(), found.store_id.hex())
        if self.boot and self.boot != found.boot:
            return WrongRecipientError("boot", str(self.boot), str(found.boot))
        return None

    def _is_early(self, found: Identity) -> bool:
        """True if the node has not heard of the cluster yet, and the cluster knows its directory. A
        caller may then inform it."""
        return not found.cluster and bool(self.store_id)


def no_common_protocol(node: str, caller: str) -> UnsupportedError:
    """Make the error for both sides' logs: the versions that each speaks."""
    return UnsupportedError(f"no common protocol: the node speaks versions {node}, its caller {caller}; upgrade one")


@attrs.frozen
class Hello(Question[Identity]):
    """A question for the identity of the node."""


NODE: Final = Interface(
    schema=load("virtuallog.rpc.protocol", "node.capnp").Node,
    methods=(
        Method(name="open", request=OpenNode, reply=NodeOpened),
        Method(name="hello", request=Hello, reply=Identity),
    ),
)

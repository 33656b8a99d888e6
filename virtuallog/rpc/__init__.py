"""Cap'n Proto RPC on trio: every service of a node is an ordinary Cap'n Proto interface.

    Interface, Method       declared by a package beside its messages and its schema
    derive, Codec           messages as bytes, for configs and files
    RpcServices             the Services port: calls to other nodes
    RpcServer               serves handlers to other nodes
    Peer, Open, Identity    addresses of a node, its expected identity, its actual identity
    tcp_connect, tcp_listen streams; anything else that makes `trio.abc.Stream`s will do

From bytes up: frames -> messages, message_writer, message_reader -> questions, answers ->
connection, which are pure (`rpc.protocol`); channel, link, services and server drive it.
"""

from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.rpc.link import Peer
from virtuallog.rpc.protocol.codec import Codec, derive
from virtuallog.rpc.protocol.node import Hello, Identity, OpenNode
from virtuallog.rpc.server import RpcServer
from virtuallog.rpc.services import RpcServices
from virtuallog.rpc.transport import bound_address, tcp_connect, tcp_listen

__all__ = [
    "Interface", "Method", "derive", "Codec", "RpcServices", "RpcServer", "Peer", "OpenNode", "Identity", "Hello",
    "tcp_connect", "tcp_listen", "bound_address",
]  # fmt: skip

"""Cap'n Proto RPC on trio: every service of a node is an ordinary Cap'n Proto interface.

    protocol.codec      messages as bytes, for configs and files; an interface is declared by a package beside its messages
                        (`virtuallog.contract.capnp_interface`)
    services            the Services port: calls to other nodes
    server              serves handlers to other nodes
    link, protocol.node addresses of a node, its expected identity, its actual identity
    transport           streams; anything else that makes `trio.abc.Stream`s will do

From bytes up: frames -> messages, message_writer, message_reader -> questions, answers ->
connection, which are pure (`rpc.protocol`); channel, link, services and server drive it.

Imports none of them: a client does not load the server.
"""

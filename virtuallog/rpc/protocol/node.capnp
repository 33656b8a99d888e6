# The interface that every node offers beside its services. The bootstrap object of a connection implements this interface
# and all others of the node: cast it as needed.

@0xe2f3b1a6c94d7058;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("virtuallog::node");

interface Node {
  open @0 (cluster :Data, node :UInt32, storeId :Data, boot :UInt64,
           protocolFirst :UInt16 = 1, protocolLast :UInt16 = 1) -> (node :Node, protocol :UInt16 = 1);
  # Fails unless this is the node that is meant; gives the same node back. A field that is empty or zero is not
  # checked. Send it with the bootstrap request and the first calls, in one flight: if it fails, so do they, with the
  # same error, and none of them is executed.
  # The caller speaks the protocol versions from protocolFirst to protocolLast; protocol is the one in force on this
  # connection, the highest that both speak. Fails if there is none.

  hello @1 () -> (cluster :Data, node :UInt32, storeId :Data, boot :UInt64, software :Text,
              protocolFirst :UInt16 = 1, protocolLast :UInt16 = 1, nonce :Data);
  # The identity of the node, and the versions it speaks. `cluster` is empty before the cluster is bootstrapped.
  # `nonce` is random, one per process; empty from a node of a former version.
}

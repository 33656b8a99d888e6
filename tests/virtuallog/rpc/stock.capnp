# What a foreign node looks like: one object that implements Node beside its services.

@0xd40c8b1ea3f7925d;

using Node = import "/virtuallog/rpc/protocol/node.capnp".Node;
using Shop = import "/tests/virtuallog/rpc/shop.capnp".Shop;

interface ForeignNode extends(Node, Shop) {}

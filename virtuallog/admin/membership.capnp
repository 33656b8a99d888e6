@0x96a0cd9fe9b53c4d;
# What operators may ask any node about the nodes of the cluster; membership.py says what the fields mean. Fields are only
# ever added.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("virtuallog::membership");

struct Changed {
  register @0 :Data;          # register.capnp
}

struct Progress {
  done @0 :Bool;
  waits @1 :Bool;
  says @2 :Text;
  problems @3 :List(Text);
}

interface Membership {
  addNode @0 (node :UInt32, addresses :List(Text), roles :List(Text)) -> Changed;
  replaceNode @1 (node :UInt32, addresses :List(Text), force :Bool, storeId :Data) -> Progress;
  drainNode @2 (node :UInt32, check :Bool) -> Progress;
  removeNode @3 (node :UInt32) -> Changed;
  reconfigMembers @4 (members :List(UInt32), seen :List(UInt32)) -> Changed;
}

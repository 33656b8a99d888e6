@0xc3a1f6c2b0d94e17;
# The value of the MetaStore's register. Fields are only ever added, never changed or removed.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("virtuallog::chain");

struct Register {
  format @0 :UInt16;          # 1; 2 if a node has `joined`; 3 if `guarded`
  cluster @1 :Data;           # 16 random bytes, for ever
  version @2 :UInt64;         # of the chain; equals the version of the register
  segments @3 :List(Segment);
  members @4 :List(UInt32);   # MetaStore members that decide the next version
  nodes @5 :List(Node);
  level @6 :UInt16 = 1;       # protocol version that every node of the table has announced
  database @7 :Bool;          # a database stands on this log, and says what may be trimmed
  guarded @8 :UInt64;         # version from which only nodes and admins append; 0: never
}

struct Segment {
  version @0 :UInt64;         # with attempt: the id of the segment
  attempt @1 :UInt64;
  kind @2 :Text;              # loglet provider
  config @3 :Data;            # the provider's own format
  start @4 :UInt64;           # first position
  stop @5 :Int64 = -1;        # one past the last position; -1: open
  base @6 :UInt64;            # loglet offset of `start`
}

struct Node {
  id @0 :UInt32;
  storeId @1 :Data;
  addresses @2 :List(Text);
  roles @3 :List(Text);
  joined @4 :UInt64;          # version in which this data directory took its place; 0: a first one
}

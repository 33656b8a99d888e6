@0xb55bbb7047a4b66a;
# What clients may ask any node about the cluster; control.py says what the fields mean. Fields are only ever added.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("virtuallog::control");

struct Status {
  cluster @0 :Data;
  node @1 :UInt32;
  storeId @2 :Data;
  boot @3 :UInt64;
  roles @4 :List(Text);
  software @5 :Text;
  register @6 :Data;          # register.capnp
  failures @7 :List(Text);
  phase @8 :Text = "formatted";
  healing @9 :List(Text);
  protocol @10 :UInt16 = 1;   # the newest version that the node speaks
}

struct Setting {
  name @0 :Text;
  value @1 :Text;
}

struct SegmentId {
  version @0 :UInt64;
  attempt @1 :UInt64;
}

struct Changed {
  register @0 :Data;          # register.capnp
}

struct Alive {
  node @0 :UInt32;
  storeId @1 :Data;
  boot @2 :UInt64;
  roles @3 :List(Text);
  version @4 :UInt64;
}

struct Condition {
  notReady @0 :List(Text);
  wallMs @1 :Int64;
  freeBytes @2 :UInt64;
  sizeBytes @3 :UInt64;       # 0 if unknown
}

interface Control {
  getStatus @0 () -> Status;
  reconfigExtend @1 (kind :Text, settings :List(Setting)) -> Changed;
  reconfigTruncate @2 () -> Changed;
  reconfigModify @3 (segment :SegmentId, kind :Text, config :Data, base :UInt64) -> Changed;
  sealLog @4 () -> Changed;
  prefixTrim @5 (position :UInt64, force :Bool) -> (position :UInt64);
  rebuildSegment @6 (segment :SegmentId, servers :List(UInt32)) -> Changed;
  probe @7 () -> Alive;
  findTrimPoint @8 () -> (position :UInt64);
  getCondition @9 () -> Condition;
}

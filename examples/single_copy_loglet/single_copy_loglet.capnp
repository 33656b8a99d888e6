@0xd4a1f03c59e2b786;
# The wire of a single-copy loglet; single_copy_loglet.py says what the fields mean.

struct SegmentId {
  version @0 :UInt64;
  attempt @1 :UInt64;
}

struct State {
  tail @0 :UInt64;
  trimPoint @1 :UInt64;
  sealed @2 :Bool;
}

struct Item {
  start @0 :UInt64;
  stop @1 :UInt64;
  first @2 :UInt32;
  timeMs @3 :Int64;
  blob @4 :Data;
}

struct Items {
  items @0 :List(Item);
}

struct Append {
  segment @0 :SegmentId;
  batch @1 :Data;
  opens @2 :Bool;
}

struct Look {
  segment @0 :SegmentId;
}

struct Seal {
  segment @0 :SegmentId;
}

struct Trim {
  segment @0 :SegmentId;
  offset @1 :UInt64;
}

struct Read {
  segment @0 :SegmentId;
  start @1 :UInt64;
  stop @2 :UInt64;
  maxBytes @3 :UInt32;
}

interface SingleCopy {
  append @0 Append -> State;
  look @1 Look -> State;
  seal @2 Seal -> State;
  trim @3 Trim -> State;
  read @4 Read -> Items;
}

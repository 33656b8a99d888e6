@0xe2c9475ab1f08d36;
# The wire of a NativeLoglet; messages.py says what the fields mean. Fields are only ever added.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("virtuallog::native");

struct SegmentId {
  version @0 :UInt64;
  attempt @1 :UInt64;
}

struct State {
  localTail @0 :UInt64;
  sealed @1 :Bool;
  knownTail @2 :UInt64;
  trim @3 :UInt64;
  full @4 :Bool;
}

struct Stored {
  accepted @0 :Bool;
  sealed @1 :Bool;
  localTail @2 :UInt64;
  knownTail @3 :UInt64;
}

struct Waves {
  waves @0 :List(Data);
  state @1 :State;
}

struct Appended {
  first @0 :UInt64;
  knownTail @1 :UInt64;
}

struct Store {
  segment @0 :SegmentId;
  wave @1 :Data;
  knownTail @2 :UInt64;
}

struct Seal {
  segment @0 :SegmentId;
  rebuilds @1 :Bool;
  whole @2 :Bool;
}

struct GetState {
  segment @0 :SegmentId;
}

struct WaitTail {
  segment @0 :SegmentId;
  past @1 :Int64;
  knownTail @2 :UInt64;
}

struct Repair {
  segment @0 :SegmentId;
  waves @1 :List(Data);
  knownTail @2 :UInt64;
  rebuilds @3 :Bool;
}

struct ReadWaves {
  segment @0 :SegmentId;
  start @1 :UInt64;
  stop @2 :UInt64;
  maxBytes @3 :UInt32;
}

struct Trim {
  segment @0 :SegmentId;
  offset @1 :UInt64;
  knownTail @2 :UInt64;
}

struct Append {
  segment @0 :SegmentId;
  batch @1 :Data;
  opens @2 :Bool;
  expectedTail @3 :Int64 = -1;
}

struct Config {
  # Never sent: the names and types in the JSON that is the config of a segment (register.capnp).
  servers @0 :List(UInt32);
  sequencer @1 :UInt32;
  boot @2 :UInt64;
  loglet @3 :Text;            # VERSION.ATTEMPT, the latter hexadecimal; absent if it is the id of the segment
}

interface LogServer {
  store @0 Store -> Stored;
  seal @1 Seal -> State;
  getState @2 GetState -> State;
  waitTail @3 WaitTail -> State;
  repair @4 Repair -> Stored;
  readWaves @5 ReadWaves -> Waves;
  trim @6 Trim -> State;
}

interface Sequencer {
  append @0 Append -> Appended;
}

@0xfb8e62f24f5f8aaa;
# What operators ask a server of the database; messages.py says what the fields mean. Fields are only ever added.

struct Member {
  name @0 :Text;
  durable @1 :UInt64;
  heard @2 :UInt64;
}

struct Hold {
  name @0 :Text;
  position @1 :UInt64;
  milliseconds @2 :UInt64;
}

struct Status {
  state @0 :Text;
  waitingFor @1 :Text;
  cursor @2 :UInt64;
  knownTail @3 :UInt64;
  zxid @4 :UInt64;
  snapshot @5 :UInt64;
  clients @6 :UInt64;
  allowed @7 :UInt64;
  members @8 :List(Member);
  holds @9 :List(Hold);
  engines @10 :List(Text);
  disabled @11 :List(Text);
}

struct RawWrite {
  key @0 :Data;
  value @1 :Data;             # null: delete
}

interface Database {
  getDatabaseStatus @0 () -> Status;
  findAllowedTrim @1 () -> (position :UInt64, reasons :List(Text));
  placeHold @2 (name :Text, position :UInt64, milliseconds :UInt64) -> ();
  releaseHold @3 (name :Text) -> ();
  compareChecksums @4 () -> (position :UInt64);
  writeRaw @5 (writes :List(RawWrite)) -> ();
  setEngine @6 (name :Text, enabled :Bool) -> ();
  ejectReplica @7 (name :Text) -> ();
}

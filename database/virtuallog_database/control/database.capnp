@0xfb8e62f24f5f8aaa;
# What operators ask a server of the database; messages.py says what the fields mean. Fields are only ever added.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("virtuallog::database");

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
  enabled @12 :List(Text);
}

struct RawWrite {
  key @0 :Data;
  value @1 :Data;             # null: delete
}

struct Acl {
  permissions @0 :UInt32;
  scheme @1 :Text;
  id @2 :Text;
}

struct Znode {
  zxid @0 :Int64;
  found @1 :Bool;
  readable @2 :Bool;
  czxid @3 :Int64;
  mzxid @4 :Int64;
  pzxid @5 :Int64;
  ctimeMs @6 :Int64;
  mtimeMs @7 :Int64;
  version @8 :Int32;
  cversion @9 :Int32;
  aversion @10 :Int32;
  ephemeralOwner @11 :Int64;
  children @12 :UInt32;
  dataBytes @13 :UInt32;
  data @14 :Data;
  acl @15 :List(Acl);
  dataWatches @16 :UInt32;
  childWatches @17 :UInt32;
}

struct Child {
  name @0 :Text;
  dataBytes @1 :UInt32;
  children @2 :UInt32;
  ephemeralOwner @3 :Int64;
  mtimeMs @4 :Int64;
  version @5 :Int32;
}

struct Children {
  zxid @0 :Int64;
  found @1 :Bool;
  readable @2 :Bool;
  total @3 :UInt32;
  children @4 :List(Child);
  hasMore @5 :Bool;
}

struct Session {
  session @0 :Int64;
  timeoutMs @1 :UInt32;
  generation @2 :UInt32;
  ephemerals @3 :UInt32;
  hasMoreEphemerals @4 :Bool;
  attached @5 :Bool;
}

struct Sessions {
  zxid @0 :Int64;
  total @1 :UInt32;
  ephemerals @2 :UInt32;
  connections @3 :UInt32;
  watches @4 :UInt64;
  sessions @5 :List(Session);
  hasMore @6 :Bool;
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
  readZnode @8 (path :Text, dataBytesMax :UInt32, asAdmin :Bool) -> Znode;
  listChildren @9 (path :Text, after :Text, count :UInt32, asAdmin :Bool) -> Children;
  listSessions @10 (after :Int64, count :UInt32) -> Sessions;
}

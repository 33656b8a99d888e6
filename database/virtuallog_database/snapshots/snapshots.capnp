@0xd1f6f0b7a4c95e21;
# How replicas of a database hand each other snapshots; messages.py says what the fields mean. Fields are only ever added.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("virtuallog::snapshots");

struct CheckpointFile {
  name @0 :Text;
  size @1 :UInt64;
  checksum @2 :UInt32;
}

struct SnapshotOffer {
  position @0 :UInt64;
  files @1 :List(CheckpointFile);
}

struct Piece {
  content @0 :Data;
  checksum @1 :UInt32;
}

struct GetSnapshot {
  cluster @0 :Data;
  replica @1 :Text;
  atMost @2 :UInt64;
}

struct ReadPiece {
  cluster @0 :Data;
  position @1 :UInt64;
  file @2 :Text;
  offset @3 :UInt64;
  length @4 :UInt32;
  replica @5 :Text;
}

interface Snapshots {
  getSnapshot @0 GetSnapshot -> SnapshotOffer;
  readPiece @1 ReadPiece -> Piece;
}

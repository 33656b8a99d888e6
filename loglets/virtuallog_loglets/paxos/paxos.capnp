@0xd41f6a90be27c385;
# The wire of a replicated log; messages.py says what the fields mean. Fields are only ever added.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("virtuallog::paxos");

struct SegmentId {
  version @0 :UInt64;
  attempt @1 :UInt64;
}

enum Status {
  empty @0;
  starting @1;
  recovering @2;
  voting @3;
}

enum Verdict {
  accept @0;
  reject @1;
  ignored @2;
}

struct Incarnation {
  node @0 :UInt32;
  incarnation @1 :UInt64;
}

struct Record {
  position @0 :UInt64;
  promised @1 :Int64;
  performed @2 :Int64 = -1;
  value @3 :Data;
  learned @4 :Bool;
}

struct Standing {
  status @0 :Status;
  incarnation @1 :UInt64;
  promised @2 :Int64;
  begin @3 :UInt64;
  learned @4 :UInt64;
  end @5 :UInt64;
  uniformFrom @6 :UInt64;
  uniform @7 :Int64;
  seal @8 :Int64 = -1;
  sealSeen @9 :Int64 = -1;
  trim @10 :UInt64;
  coordinator @11 :Int64 = -1;
  incarnations @12 :List(Incarnation);
  full @13 :Bool;
}

struct Promised {
  verdict @0 :Verdict;
  proposal @1 :Int64;
  end @2 :UInt64;
  records @3 :List(Record);
  incarnation @4 :UInt64;
  incarnations @5 :List(Incarnation);
  coordinator @6 :Int64 = -1;
}

struct Promise {
  segment @0 :SegmentId;
  proposal @1 :Int64;
  coordinator @2 :Int64 = -1;
  first @3 :Int64 = -1;
  stop @4 :Int64 = -1;
}

struct Decided {
  proposal @0 :Int64 = -1;
  first @1 :UInt64;
  stop @2 :UInt64;
}

struct Written {
  verdict @0 :Verdict;
  proposal @1 :Int64;
  end @2 :UInt64;
  records @3 :List(Record);
  incarnation @4 :UInt64;
  incarnations @5 :List(Incarnation);
  coordinator @6 :Int64 = -1;
  hasWaiters @7 :Bool;
}

struct Write {
  segment @0 :SegmentId;
  proposal @1 :Int64;
  coordinator @2 :Int64 = -1;
  first @3 :UInt64;
  values @4 :List(Data);
  decided @5 :Decided;
}

struct Learn {
  segment @0 :SegmentId;
  decided @1 :Decided;
  records @2 :List(Record);
  coordinator @3 :Int64 = -1;
  rebuilds @4 :Bool;
}

struct Recovered {
  status @0 :Status;
  promised @1 :Int64;
  begin @2 :UInt64;
  end @3 :UInt64;
  incarnation @4 :UInt64;
  incarnations @5 :List(Incarnation);
  trim @6 :UInt64;
}

struct Recover {
  segment @0 :SegmentId;
  node @1 :UInt32;
  incarnation @2 :Int64 = -1;
}

struct GetStanding {
  segment @0 :SegmentId;
}

struct WaitLearned {
  segment @0 :SegmentId;
  past @1 :Int64;
}

struct Records {
  records @0 :List(Record);
  standing @1 :Standing;
}

struct ReadRecords {
  segment @0 :SegmentId;
  first @1 :UInt64;
  stop @2 :UInt64;
  maxBytes @3 :UInt32;
}

struct TrimSealed {
  segment @0 :SegmentId;
  offset @1 :UInt64;
}

struct Taken {
  place @0 :Int64 = -1;
  coordinator @1 :Int64 = -1;
}

struct Append {
  segment @0 :SegmentId;
  batch @1 :Data;
  opens @2 :Bool;
  expectedTail @3 :Int64 = -1;
  insist @4 :Bool;
}

struct Seal {
  segment @0 :SegmentId;
  insist @1 :Bool;
}

struct Truncate {
  segment @0 :SegmentId;
  offset @1 :UInt64;
  insist @2 :Bool;
}

struct Settle {
  segment @0 :SegmentId;
  insist @1 :Bool;
  past @2 :Int64 = -1;
}

interface PaxosReplica {
  promise @0 Promise -> Promised;
  write @1 Write -> Written;
  learn @2 Learn -> Standing;
  recover @3 Recover -> Recovered;
  getStanding @4 GetStanding -> Standing;
  waitLearned @5 WaitLearned -> Standing;
  readRecords @6 ReadRecords -> Records;
  trimSealed @7 TrimSealed -> Standing;
}

interface PaxosCoordinator {
  append @0 Append -> Taken;
  seal @1 Seal -> Taken;
  truncate @2 Truncate -> Taken;
  settle @3 Settle -> Taken;
}

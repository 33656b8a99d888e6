@0xd7a3f1c86b5e4922;
# The wire of a raft log; messages.py says what the fields mean. Fields are only ever added.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("virtuallog::raft");

struct SegmentId {
  version @0 :UInt64;
  attempt @1 :UInt64;
}

struct RequestVote {
  segment @0 :SegmentId;
  term @1 :UInt64;
  candidate @2 :UInt64;
  lastIndex @3 :UInt64;
  lastTerm @4 :UInt64;
  pre @5 :Bool;
  forced @6 :Bool;
}

struct VoteAnswer {
  granted @0 :Bool;
  term @1 :UInt64;
  retired @2 :UInt64;
}

struct AppendRecords {
  segment @0 :SegmentId;
  term @1 :UInt64;
  leader @2 :UInt64;
  previousIndex @3 :UInt64;
  previousTerm @4 :UInt64;
  commit @5 :UInt64;
  records @6 :List(Data);
  base @7 :Data;
}

struct RecordsAppended {
  term @0 :UInt64;
  accepted @1 :Bool;
  index @2 :UInt64;
  hintTerm @3 :UInt64;
  waiting @4 :Bool;
  full @5 :Bool;
}

struct StandNow {
  segment @0 :SegmentId;
  term @1 :UInt64;
  leader @2 :UInt64;
}

struct TransferAnswer {
  term @0 :UInt64;
}

struct Standing {
  tail @0 :UInt64;
  sealed @1 :Bool;
  trim @2 :UInt64;
  leader @3 :UInt64;
  term @4 :UInt64;
  role @5 :Text;
  state @6 :Text;
  lastIndex @7 :UInt64;
  commitIndex @8 :UInt64;
  full @9 :Bool;
}

struct LeaderReply {
  place @0 :Int64 = -1;
  sealed @1 :Bool;
  leader @2 :UInt64;
}

struct Append {
  segment @0 :SegmentId;
  batch @1 :Data;
  opens @2 :Bool;
  expectedTail @3 :Int64 = -1;
}

struct CheckTail {
  segment @0 :SegmentId;
}

struct Seal {
  segment @0 :SegmentId;
  stand @1 :Bool;
}

struct GetStanding {
  segment @0 :SegmentId;
}

struct WaitTail {
  segment @0 :SegmentId;
  past @1 :Int64;
}

struct Records {
  records @0 :List(Data);
  standing @1 :Standing;
}

struct ReadRecords {
  segment @0 :SegmentId;
  start @1 :UInt64;
  stop @2 :UInt64;
  maxBytes @3 :UInt32;
}

struct Trim {
  segment @0 :SegmentId;
  offset @1 :UInt64;
}

struct CopyRecords {
  segment @0 :SegmentId;
  records @1 :List(Data);
  trim @2 :UInt64;
}

interface RaftPeer {
  requestVote @0 RequestVote -> VoteAnswer;
  appendRecords @1 AppendRecords -> RecordsAppended;
  standNow @2 StandNow -> TransferAnswer;
}

interface RaftReplica {
  append @0 Append -> LeaderReply;
  checkTail @1 CheckTail -> LeaderReply;
  seal @2 Seal -> LeaderReply;
  getStanding @3 GetStanding -> Standing;
  waitTail @4 WaitTail -> Standing;
  readRecords @5 ReadRecords -> Records;
  trim @6 Trim -> Standing;
  copyRecords @7 CopyRecords -> Standing;
}

struct LogMember {
  store @0 :UInt64;
  kind @1 :UInt8;
  address @2 :Text;
}

struct GetMembership {
  segment @0 :SegmentId;
}

struct Membership {
  store @0 :UInt64;
  index @1 :UInt64;
  members @2 :List(LogMember);
  removed @3 :Bool;
  standing @4 :Standing;
}

struct ChangeMember {
  segment @0 :SegmentId;
  store @1 :UInt64;
  kind @2 :UInt8;
  seen @3 :UInt64;
  address @4 :Text;
}

struct TransferLeadership {
  segment @0 :SegmentId;
  target @1 :UInt64;
}

struct Retire {
  segment @0 :SegmentId;
  index @1 :UInt64;
}

interface RaftMembership {
  getMembership @0 GetMembership -> Membership;
  changeMember @1 ChangeMember -> LeaderReply;
  transferLeadership @2 TransferLeadership -> LeaderReply;
  retire @3 Retire -> Standing;
}

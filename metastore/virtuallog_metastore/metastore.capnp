@0xd1b7a9034e5c8f62;
# Wire and disk structs of the MetaStore's Paxos; messages.py has their meaning. Fields are only ever added.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("virtuallog::metastore");

struct Ballot {
  round @0 :UInt64;
  node @1 :UInt32;
  boot @2 :UInt64;
  nonce @3 :UInt64;
}

struct Proposal {
  value @0 :Data;
  members @1 :List(UInt32);
  attempt @2 :UInt64;
  earlier @3 :List(UInt64);
}

struct Decision {
  version @0 :UInt64;
  proposal @1 :Proposal;
}

struct Vote {
  ballot @0 :Ballot;
  proposal @1 :Proposal;
}

struct Standing {
  known @0 :Int64;            # -1: nothing
  decision @1 :Decision;      # null unless it is of the slot or later
  promised @2 :Ballot;
  accepted @3 :Vote;          # null: nothing accepted
}

struct Receipt {
  known @0 :Int64;
  decision @1 :Decision;
  promised @2 :Ballot;
}

struct Learned {
  known @0 :Int64;
}

struct Ask {
  slot @0 :UInt64;
  after @1 :UInt64;
}

struct Prepare {
  slot @0 :UInt64;
  after @1 :UInt64;
  ballot @2 :Ballot;
}

struct Accept {
  slot @0 :UInt64;
  after @1 :UInt64;
  ballot @2 :Ballot;
  proposal @3 :Proposal;
}

struct Learn {
  decision @0 :Decision;
}

interface Acceptor {
  ask @0 Ask -> Standing;
  prepare @1 Prepare -> Standing;
  accept @2 Accept -> Receipt;
  learn @3 Learn -> Learned;
}

# Disk only: the promise and the vote of an acceptor in one slot (records.py).
struct Ballots {
  slot @0 :UInt64;
  promised @1 :Ballot;
  accepted @2 :Vote;
}

# A made-up service with one of everything, for the tests of the RPC.

@0xb7c1d0e5f2a39846;

enum Kind { plain @0; notForSale @1; }

struct SegmentId { version @0 :UInt64; attempt @1 :UInt64; }

struct Box { length @0 :UInt32; label @1 :Text; }

struct Bag {}

struct Item {
  union {
    box @0 :Box;
    bag @1 :Void;
  }
}

struct Everything {
  count @0 :Int64;
  small @1 :UInt8;
  ratio @2 :Float64;
  isOpen @3 :Bool;
  rawBytes @4 :Data;
  name @5 :Text;
  kind @6 :Kind;
  segment @7 :SegmentId;
  numbers @8 :List(UInt32);
  names @9 :List(Text);
  blobs @10 :List(Data);
  obsoleteKinds @11 :List(Kind);
  boxes @12 :List(Box);
  roles @13 :List(Text);
  maybeName @14 :Text;
  maybeBytes @15 :Data;
  maybeBox @16 :Box;
  maybeNumbers @17 :List(UInt32);
  item :union {
    box @18 :Box;
    bag @19 :Void;
  }
  items @20 :List(Item);
  maybeItem @21 :Item;
  obsoleteThing @22 :Text;
}

struct KindList { obsoleteKinds @0 :List(Kind); }

struct Stored { tail @0 :UInt64; }

interface Shop {
  store @0 (segment :SegmentId, batch :Data, position :UInt64) -> Stored;
  echo @1 Everything -> Everything;
  wait @2 (token :UInt64) -> (token :UInt64);
  notServed @3 () -> ();
}

interface Annex {
  # Known to clients only.
  visit @0 () -> ();
}

@0xa3c1f0d27be4986d;
# The messages of the floor: one struct for each direction of each hop.

struct Message {
  batch @0 :UInt64;          # number that the client gave the batch; in what the client sends and gets
  wave @1 :UInt64;           # number of the wave; all waves up to it are durable, in what a log server sends
  entries @2 :List(Data);    # a blob for each batch
}

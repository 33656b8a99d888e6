"""The work of `raft-log`, a Raft log used by itself: stores, replicas, entries, members, their status. Imports the common parts, and the traces of `paxos-log`."""

"""The pure core of the replicated log: acceptor and learner, coordinator, leader, fills, recovery, tail check.

Each takes requests, answers and times, and returns effects; a driver in `paxos.drivers` carries them out. Nothing here does I/O, knows a clock or
draws random numbers. Imports `messages`, `offsets` and `config` of this folder, and pure modules of virtuallog."""

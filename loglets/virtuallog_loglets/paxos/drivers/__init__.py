"""The drivers of the cores, over the ports of virtuallog: replica and coordinator services, election, catch-up, fills, reads, group commit.

Imports `paxos.core`, `messages`, `offsets`, `config` and `metrics`; never the loglet, its provider or `paxos.standalone`."""

"""The work of `paxos-log`, the replicated log of Mesos used by itself: replicas, their records, their status, the replay of a trace. Imports the common parts."""

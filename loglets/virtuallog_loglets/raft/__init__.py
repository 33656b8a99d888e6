"""Loglets replicated by Raft (Ongaro and Ousterhout, USENIX ATC'14), as YugabyteDB and Kudu keep their logs.

An append, from file to file:

1. `loglet.py`, `RaftLoglet.post_append`: posts the batch to the leader.
2. `virtuallog/client/leader_client.py`: finds the leader, if it is another one by now, and retries.
3. `drivers/replica_service.py`, `drivers/replica_driver.py`: hand the batch to the replica of its loglet.
4. `core/leader_term.py`, `core/proposals.py`: give it an offset and cut a record of all that waits.
5. `core/replication.py`: sends the record to the peers, before the own disk has it.
6. `core/record_check.py`: a follower checks that it follows; `core/outbox.py` answers once it is durable.
7. `core/replica.py`, `RaftReplica._advance`: commits what a majority has; `core/proposals.py` answers the client.
"""

from virtuallog_loglets.raft.provider import RaftProvider

__all__ = ["RaftProvider"]

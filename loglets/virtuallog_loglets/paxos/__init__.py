"""The replicated log of Mesos (Multi-Paxos with an elected coordinator), as a kind of loglet and as a log of its own.

The rules are in docs/internals/protocols/paxos.md. `messages.py` and `core/values.py` are the vocabulary.
Cores in `core/` are pure; a driver in `drivers/` runs each of them over the ports.

The life of an append:

1. `loglet.py`, `PaxosLoglet.append`: the client makes a `PaxosAppend`.
2. `virtuallog/client/leader_client.py`, `LeaderClient.ask`: finds the leader (`leader_search.py` there) and retries.
3. `drivers/coordinator_service.py`, `drivers/coordinator_requests.py`: the node of a replica serves the request,
   starts an election (`drivers/election_driver.py`) or names the leader.
4. `core/leader_term.py`, `LeaderTerm.offer`: checks session and condition; `core/proposal_queue.py` gives it an offset.
5. `core/replication.py`, `Replicator.start`: writes the next position, a `PaxosWrite` to all replicas
   (sent by `drivers/coordinator_driver.py`).
6. `drivers/replica_service.py`, `core/replica.py`, `Replica._write`: a replica accepts;
   `drivers/group_commit.py` answers once the record is durable.
7. `core/rounds.py`, `Round.count`: a quorum has accepted. `Replicator.written` returns the position,
   `LeaderTerm._commit` has the local replica learn it and then acknowledges the append (`PaxosResolve`).
8. The other replicas learn the decision with the next write, or from `Replicator.announce`.

Elsewhere:

* tail check: `core/tail_check.py`, run by `drivers/tail_check_driver.py`
* seal: `LeaderTerm.seal_log` queues it, `LeaderTerm._commit` closes the log; a replica is closed in `core/slots.py`
* election: `core/coordinator.py`, run by `drivers/election_driver.py`
* recovery of a replica that lost its store: `core/recovery.py`, run by `drivers/replica_maintenance.py`
* catch-up of a replica that missed positions: `core/gap_repair.py`, run by `drivers/catch_up.py`
* rebuilding a lost copy of a closed log: `drivers/rereplication.py`
"""

from virtuallog_loglets.paxos.provider import PaxosProvider

__all__ = ["PaxosProvider"]

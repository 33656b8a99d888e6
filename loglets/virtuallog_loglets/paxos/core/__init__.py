"""The pure core of the replicated log: acceptor and learner, coordinator, leader, fills, recovery, tail check.

Each core takes requests, answers and times, and returns effects; a driver in `paxos.drivers` carries them out.
Nothing here does I/O, reads a clock or draws random numbers. It imports `messages`, `offsets` and `config` of
the folder above, and pure modules of virtuallog.

The life of an append in the cores:

* `coordinator.py`, `Coordinator.offer`: the coordinator leads, so the batch goes to its `LeaderTerm`.
* `leader_term.py`, `LeaderTerm._judge`: deduplicate, check the condition, or hold the batch until a quorum has
  confirmed the lead (`read_index.py`).
* `proposal_queue.py`, `ProposalQueue.add_batch`: the batch joins the next position.
* `replication.py`, `Replicator.start`: the position is written, as a `PaxosWrite` to all replicas.
* `replica.py`, `Replica._write`: a replica accepts and answers once that is durable (`slots.py` holds the records).
* `rounds.py`, `Round.count`: the answers of a quorum decide the position.
* `leader_term.py`, `LeaderTerm._commit`: the append is acknowledged, by the effect `PaxosResolve`.

A SEAL is a position like any other: `LeaderTerm.seal_log` queues it, and `LeaderTerm._commit` closes the log.
"""

"""Loglet with one sequencer and a majority of log servers (Delos, OSDI'20, section 4.2).

A sequencer orders batches into waves, log servers store the waves, and any majority of them can
seal the loglet.

The life of an append:

    1. loglet.py                      `NativeLoglet.append` sends the batch to the sequencer of the config
    2. drivers/sequencer_service.py   `SequencerDriver.append` offers it to the core
    3. core/sequencer.py              `Sequencer.offer` assigns its offsets; `turn` cuts waves and sends them
    4. core/log_server.py             `LogServer._store` checks the local-commit rule and the seal, then
                                      `_persist` hands the wave to the WAL
    5. drivers/log_server_service.py  appends to the WAL (`virtuallog_loglets.wal`), calls `persisted` after the sync
    6. core/sequencer.py              `Sequencer.stored` counts the server's tail; `_commit` acknowledges the batch
                                      once `core/quorum.py: committed_tail` finds the wave on a majority

Other answers by file:

    core/tail_check.py       The tail of a loglet, open or sealed. Tail first, seal bit second: rule R2.
    core/suffix_repair.py     A sealed suffix is completed on a majority.
    core/durable_state.py    State that a log server recovers from its WAL.
    drivers/rereplication.py A lost copy of a closed loglet is rebuilt on another server.
    messages.py              All messages. core/wave.py: the unit of commit, repair and storage.

The cores are pure. Each has a driver that runs it over the ports. docs/internals/protocols/native.md explains
how they play together and which orders of steps are dangerous.
"""

from virtuallog_loglets.native.provider import NativeProvider

__all__ = ["NativeProvider"]

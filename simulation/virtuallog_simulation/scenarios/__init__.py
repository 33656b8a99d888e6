"""The scenarios of `virtuallog simulate`, by file, and their one registry.

    cluster/cancelled_appends.py            cancelled
    cluster/cloned_directory.py             copied
    cluster/disk_loss.py                    wiped
    cluster/load.py                         cluster
    cluster/mixed_kinds.py                  mixed
    cluster/rebuild.py                      rebuilt
    cluster/sequencer_loss.py               bereft, nervous
    cluster/sequencer_restart.py            reborn
    cluster/single_kind.py                  archive, striped, zookeeper
    cluster/store_loss.py                   hollow
    database/access_control.py              strangers
    database/append_guard.py                intruders
    database/command_cost.py                burden
    database/late_copies.py                 belated
    database/leases.py                      leased
    database/load.py                        zelos
    database/registrars.py                  registrars
    database/rights.py                      rights
    database/server_restarts.py             comeback
    database/tables.py                      tables
    fast_disks.py                           fast-cluster, fast-native, fast-paxos, fast-raft
    loglet/large_entries.py                 dropped, torn
    loglet/minority_wave.py                 minority
    loglet/native.py                        loaded, native, repair
    loglet/seals.py                         broken-disk, sealed
    loglet/session_retirement.py            retired
    loglet/stale_sequencer.py               overtaken, restart, uneven
    loglet/striped.py                       halves, stripes
    loglet/trims.py                         trimmed
    loglet/weak_seal.py                     weak-seal
    loglet/zookeeper.py                     znodes
    operators/concurrent_operators.py       operated
    operators/disaster_recovery.py          revived
    operators/drain.py                      drained
    operators/multiple_drains.py            emptied
    operators/removed_live_node.py          estranged, expelled, vacant
    operators/replaced_live_node.py         usurped
    operators/replacement.py                raft-replaced, replaced
    operators/returned_disk.py              returned, unseated
    paxos/forgotten_promise.py              forgetful
    paxos/message_loss.py                   outbid
    paxos/race.py                           duel, paxos
    paxos/stale_coordinator.py              superseded
    paxos/store_loss.py                     amnesia
    paxos/truncation.py                     truncated
    raft/copies.py                          raft-copies
    raft/elections.py                       raft-elections
    raft/former_leader.py                   raft-superseded
    raft/race.py                            raft
    raft/seals.py                           raft-seals
    register/contention.py                  contended
    register/crossed_ballots.py             crossed
    register/message_order.py               ballots
    register/race.py                        register

conformance/ holds the scenarios of the conformance kit: clauses.py `clause/NAME`, faults.py `loglet/FAULT`,
chain.py `chain/alone` and `chain/mixed`. The constant of a scenario is its name in capitals, except DATABASE, whose name is `zelos`.
No scenario imports the registry.
"""

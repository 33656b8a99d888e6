"""Pure core of the raft kind: no clocks, no network, no disk.

`replica.py` is the protocol: one replica, its events and effects. `leader_term.py` is its work while it leads.
"""

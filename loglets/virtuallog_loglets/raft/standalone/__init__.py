"""A Raft log used by itself, without a chain: `ReplicatedLog` in the process of a replica, `LogClient` in any other.

The log's own records name its members. `facade.py` opens a log on a real machine.
Imports the drivers and cores; no other part of the folder imports it.
"""

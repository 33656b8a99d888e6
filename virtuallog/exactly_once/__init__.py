"""Rules of exactly once: the appender's side of a session, and the memory of the node that orders batches.

For loglets in which one node orders batches. Pure: no tasks, time, chance or I/O. Imports the contract only.
"""

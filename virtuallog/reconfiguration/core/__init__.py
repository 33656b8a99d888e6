"""Rules of reconfiguration: one change of the chain as a state machine, changes of the node table and of the members.

Pure: no tasks, time, chance or I/O. Imports the contract only.
"""

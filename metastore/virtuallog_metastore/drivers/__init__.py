"""The trio side of the MetaStore. Imports the core, the messages and the records.

The acceptor as a service of a node, the client of the register, and the driver of its rounds.
"""

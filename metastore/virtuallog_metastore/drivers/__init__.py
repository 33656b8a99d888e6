"""The trio side of the MetaStore: the acceptor as a service of a node, the client of the register, and the driver of its rounds. Imports the core, the messages and the records."""

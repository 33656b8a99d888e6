"""The database as a role of a node: what its log role is beside it, it may fail without."""

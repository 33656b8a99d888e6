"""The database as a role of a node. The node's log does not depend on it: the role may fail alone. Imports config and zookeeper."""

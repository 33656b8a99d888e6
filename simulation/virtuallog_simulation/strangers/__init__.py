"""Servers of ZooKeeper's protocol over one log in memory, and clients of which some are strangers: the parts of the scenario `strangers`."""

"""Scenarios of the MetaStore alone: proposers, acceptors and readers of the register."""

"""Fixtures of the tests of the paxos loglet."""

from tests.loglets.paxos.loglet_stage import stage

__all__ = ["stage"]

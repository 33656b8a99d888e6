"""Fixtures of the tests of a node."""

from tests.server.node.world import world

__all__ = ["world"]

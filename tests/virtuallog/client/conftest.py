"""Fixtures of the tests of clients."""

from tests.virtuallog.client.flaky_loglets import way

__all__ = ["way"]

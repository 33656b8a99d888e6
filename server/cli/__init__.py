"""The `virtuallog` command."""

from server.cli.program import main

__all__ = ["main"]

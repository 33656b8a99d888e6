"""The `virtuallog` command."""

from virtuallog_server.cli.program import main

__all__ = ["main"]

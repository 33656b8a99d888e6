"""The `virtuallog` command: `program` and `commands` define it, the other rooms do the work."""

from virtuallog_server.cli.program import main

__all__ = ["main"]

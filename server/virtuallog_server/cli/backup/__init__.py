"""The work of `virtuallog backup` and `virtuallog restore`."""

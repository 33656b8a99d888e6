"""`python -P -m virtuallog_server`: the `virtuallog` command without its console script, for children of a supervisor."""

from virtuallog_server.cli import main

main()

"""`python -P -m server`: the `virtuallog` command without its console script, for children of a supervisor."""

from server.cli import main

main()

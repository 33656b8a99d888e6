"""Why the log is as it is: evidence that is gathered now (`gathering`), and what follows from it (the other modules, pure).

    questions that change nothing -> Picture -> findings, by topic -> text or JSON (`virtuallog_server.cli.cluster.explain`)

Evidence is of one moment, and its pieces of slightly different ones. So a finding says what was seen, and what that means if it
stays so.
"""

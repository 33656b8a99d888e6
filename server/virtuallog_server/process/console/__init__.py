"""The console of a node: HTTP for monitoring (`/metrics`, `/healthz`, `/readyz`, `/status`). Needs the extra `console`.

It changes nothing. It runs in the process of the node, and a console that fails never ends the node.
"""

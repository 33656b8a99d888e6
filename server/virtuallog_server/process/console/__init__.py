"""The console of a node: HTTP for machines that watch it (`/metrics`, `/healthz`, `/readyz`, `/status`).

It only looks. It runs in the process of the node, and a console that fails never ends the node.
"""

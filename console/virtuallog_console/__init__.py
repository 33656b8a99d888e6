"""The console of a cluster: pages for people, and an HTTP door to the log, in a process of its own that is a client of the cluster.

    request -> access (who asks, from where, with which role) -> door | pages | actions -> views -> the cluster

Nodes serve their own metrics and health themselves (`virtuallog_server.process.console`). This process may be anywhere, and may die: no node
depends on it, and what it asks of nodes is bounded.
"""

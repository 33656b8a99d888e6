"""Requests about the cluster to any node, from clients and operators, with their Cap'n Proto schemas.

`control` is about the log, `membership` about the nodes, `cluster_status` asks many nodes at once. Imports the
contract only.
"""

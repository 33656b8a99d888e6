"""Failure-driven reconfiguration of a node: it detects failed nodes, decides by a policy, and repairs. Imports no other room of the server."""

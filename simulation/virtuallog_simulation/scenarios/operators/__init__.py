"""Scenarios of operators: nodes are added, drained, replaced, removed or recovered while the log is in use."""

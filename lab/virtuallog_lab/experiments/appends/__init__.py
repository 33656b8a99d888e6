"""Experiment: the cost of an append, for the bare pipeline, a loglet alone and a VirtualLog on it (`append`)."""
